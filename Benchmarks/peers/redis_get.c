// A bare GET by hiredis: redis_get PORT COUNT SIZE stores COUNT values of SIZE bytes, reads each once, one after the other,
// and prints the microseconds of the middle one.

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static redisReply *ask(redisContext *context, redisReply *reply) {
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "redis: %s\n", reply ? reply->str : context->errstr);
        exit(1);
    }
    return reply;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int count = atoi(argv[2]), size = atoi(argv[3]);
    redisContext *context = redisConnect("127.0.0.1", atoi(argv[1]));
    if (context == NULL || context->err) return 1;
    char *value = malloc(size);
    double *times = malloc(count * sizeof *times);
    for (int i = 0; i < size; i++) value[i] = (char)rand();
    for (int i = 0; i < count; i++)
        freeReplyObject(ask(context, redisCommand(context, "SET bare:%d %b", i, value, (size_t)size)));
    for (int i = 0; i < count; i++) {
        double start = microseconds();
        redisReply *reply = ask(context, redisCommand(context, "GET bare:%d", i));
        times[i] = microseconds() - start;
        if (reply->type != REDIS_REPLY_STRING || reply->len != (size_t)size) return 1;
        freeReplyObject(reply);
    }
    qsort(times, count, sizeof *times, compare);
    printf("%f\n", times[count / 2]);
    return 0;
}
