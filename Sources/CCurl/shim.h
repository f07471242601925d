#pragma once
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* curl's setters and getters are variadic, which Swift cannot call. */

typedef size_t (*dipper_curl_data_fn)(char *data, size_t size, size_t count, void *context);

static inline CURLcode dipper_curl_set_long(CURL *h, CURLoption o, long v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_off(CURL *h, CURLoption o, curl_off_t v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_string(CURL *h, CURLoption o, const char *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_pointer(CURL *h, CURLoption o, void *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_blob(CURL *h, CURLoption o, const void *data, size_t length) {
    struct curl_blob blob = {(void *)data, length, CURL_BLOB_COPY};
    return curl_easy_setopt(h, o, &blob);
}
static inline CURLcode dipper_curl_set_list(CURL *h, CURLoption o, struct curl_slist *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_data_fn(CURL *h, CURLoption o, dipper_curl_data_fn v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode dipper_curl_set_open_fn(CURL *h, curl_opensocket_callback v) { return curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, v); }
static inline CURLcode dipper_curl_set_close_fn(CURL *h, curl_closesocket_callback v) { return curl_easy_setopt(h, CURLOPT_CLOSESOCKETFUNCTION, v); }
static inline CURLcode dipper_curl_set_ready_fn(CURL *h, curl_prereq_callback v) { return curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, v); }
static inline CURLcode dipper_curl_set_resolver_fn(CURL *h, curl_resolver_start_callback v) { return curl_easy_setopt(h, CURLOPT_RESOLVER_START_FUNCTION, v); }

/* The getters return zero if libcurl cannot tell. */
static inline long dipper_curl_long(CURL *h, CURLINFO i) {
    long v = 0;
    return curl_easy_getinfo(h, i, &v) ? 0 : v;
}
static inline curl_off_t dipper_curl_off(CURL *h, CURLINFO i) {
    curl_off_t v = 0;
    return curl_easy_getinfo(h, i, &v) ? 0 : v;
}
/* The value of CURLOPT_PRIVATE. */
static inline void *dipper_curl_private(CURL *h) {
    char *v = NULL;
    return curl_easy_getinfo(h, CURLINFO_PRIVATE, &v) ? NULL : v;
}

static inline CURLMcode dipper_curl_multi_set_socket_fn(CURLM *m, curl_socket_callback v, void *context) {
    CURLMcode code = curl_multi_setopt(m, CURLMOPT_SOCKETDATA, context);
    return code ? code : curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, v);
}
static inline CURLMcode dipper_curl_multi_set_timer_fn(CURLM *m, curl_multi_timer_callback v, void *context) {
    CURLMcode code = curl_multi_setopt(m, CURLMOPT_TIMERDATA, context);
    return code ? code : curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, v);
}
static inline CURLMcode dipper_curl_multi_set_long(CURLM *m, CURLMoption o, long v) { return curl_multi_setopt(m, o, v); }

/* A flexible array of sockets' addresses follows the sizes; Swift sees only the first bytes of it. */
static inline const struct sockaddr *dipper_curl_address(const struct curl_sockaddr *a) { return &a->addr; }

/* libcurl's list of addresses cannot name the link that a link-local address is of. */
static inline void dipper_curl_set_scope(struct curl_sockaddr *a, unsigned int scope) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->addr;
    if (a->family == AF_INET6 && v6->sin6_scope_id == 0) v6->sin6_scope_id = scope;
}

static inline curl_socket_t dipper_curl_open_socket(const struct curl_sockaddr *a) { return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol); }

static inline int dipper_curl_has_input(curl_socket_t s) { char c; return recv(s, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0; }

/* An enumerator, which Swift finds or does not find, depending on which modules it has imported before. */
static const int dipper_sock_stream = SOCK_STREAM;

/* Missing from the headers of older systems; the kernel tells whether it knows it (Linux 5.14). */
#define DIPPER_SO_BUF_LOCK 72
