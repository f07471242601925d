/* The named peer of the fetch comparison: a libcurl multi loop with nothing around it.
   curl_loop BASE COUNT AT_ONCE: fetches BASE/0 … BASE/(COUNT-1), keeps every body in memory,
   prints the seconds from the first request to the last byte. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct body {
    char *bytes;
    size_t count, capacity;
    CURL *handle;
};

static size_t take(char *data, size_t size, size_t count, void *context) {
    struct body *body = context;
    size_t length = size * count;
    if (body->capacity == 0) {
        curl_off_t expected = -1;
        curl_easy_getinfo(body->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &expected);
        body->capacity = expected > (curl_off_t)length ? (size_t)expected : length;
        body->bytes = malloc(body->capacity);
    }
    while (body->count + length > body->capacity) {
        body->capacity *= 2;
        body->bytes = realloc(body->bytes, body->capacity);
    }
    if (!body->bytes) return 0;
    memcpy(body->bytes + body->count, data, length);
    body->count += length;
    return length;
}

static void begin(CURLM *multi, CURL *handle, struct body *body, const char *base, int number) {
    char url[256];
    snprintf(url, sizeof url, "%s/%d", base, number);
    body->handle = handle;
    curl_easy_setopt(handle, CURLOPT_URL, url);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, body);
    curl_multi_add_handle(multi, handle);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const char *base = argv[1];
    int count = atoi(argv[2]), at_once = atoi(argv[3]), next = 0, done = 0, failed = 0;
    curl_global_init(CURL_GLOBAL_ALL);
    struct body *bodies = calloc((size_t)count, sizeof *bodies);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 64L);
    while (next < at_once && next < count) {
        CURL *handle = curl_easy_init();
        curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 65536L);
        curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
        begin(multi, handle, &bodies[next], base, next);
        next++;
    }
    while (done < count) {
        int running = 0, left = 0, ended = 0;
        CURLMsg *message;
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left))) {
            CURL *handle = message->easy_handle;
            long status = 0;
            curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
            if (message->data.result != CURLE_OK || status != 200) failed++;
            done++;
            ended = 1;
            curl_multi_remove_handle(multi, handle);
            if (next < count) {
                begin(multi, handle, &bodies[next], base, next);
                next++;
            } else {
                curl_easy_cleanup(handle);
            }
        }
        if (!ended) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += bodies[i].count;
    fprintf(stderr, "%zu bytes, %d failed\n", bytes, failed);
    printf("%.6f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
    return failed ? 1 : 0;
}
