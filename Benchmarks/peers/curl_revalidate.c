/* The named peer of the revalidation comparison: conditional requests by libcurl with nothing around it.
   curl_revalidate BASE COUNT: fetches BASE/0 … BASE/(COUNT-1) for their ETags, then asks for each again with
   If-None-Match, one after the other on one connection; prints the seconds that the second pass took. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct answer {
    char etag[128];
    size_t bytes;
};

static size_t take(char *data, size_t size, size_t count, void *context) {
    (void)data;
    ((struct answer *)context)->bytes += size * count;
    return size * count;
}

static size_t take_header(char *line, size_t size, size_t count, void *context) {
    struct answer *answer = context;
    size_t length = size * count;
    if (length > 5 && length < sizeof answer->etag && strncasecmp(line, "ETag:", 5) == 0) {
        memcpy(answer->etag, line + 5, length - 5);
        answer->etag[length - 5] = 0;
        answer->etag[strcspn(answer->etag, "\r\n")] = 0;
    }
    return length;
}

static long get(CURL *handle, const char *base, int number, struct answer *answer, struct curl_slist *fields) {
    char url[256];
    long status = 0;
    snprintf(url, sizeof url, "%s/%d", base, number);
    curl_easy_setopt(handle, CURLOPT_URL, url);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, answer);
    if (curl_easy_perform(handle) != CURLE_OK) return -1;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *base = argv[1];
    int count = atoi(argv[2]);
    struct answer *answers = calloc((size_t)count, sizeof *answers);
    struct timespec start, end;
    curl_global_init(CURL_GLOBAL_ALL);
    CURL *handle = curl_easy_init();
    if (!answers || !handle) return 1;
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
    for (int i = 0; i < count; i++)
        if (get(handle, base, i, &answers[i], NULL) != 200 || !answers[i].etag[0]) return 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < count; i++) {
        char field[160];
        snprintf(field, sizeof field, "If-None-Match:%s", answers[i].etag);
        struct curl_slist *fields = curl_slist_append(NULL, field);
        if (get(handle, base, i, &answers[i], fields) != 304) return 1;
        curl_slist_free_all(fields);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
    return 0;
}
