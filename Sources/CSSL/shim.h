#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

/* Returns the settings of a client that checks certificates: by the authorities of a file in PEM form, or those of the
   system for NULL. Reads files. Returns NULL if they cannot be read. */
static inline SSL_CTX *dipper_tls_settings(const char *authorities) {
    SSL_CTX *settings = SSL_CTX_new(TLS_client_method());
    if (!settings) return NULL;
    SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, NULL);
    /* A cut connection is no failure of TLS: each reply says itself where it ends. */
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    SSL_CTX_set_options(settings, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    SSL_CTX_set_options(settings, SSL_OP_NO_RENEGOTIATION);
    if (SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION) == 1
        && (authorities ? SSL_CTX_load_verify_locations(settings, authorities, NULL)
                        : SSL_CTX_set_default_verify_paths(settings)) == 1)
        return settings;
    SSL_CTX_free(settings);
    return NULL;
}

/* A connection that the other side has closed must not end the program by SIGPIPE. */
static inline int dipper_tls_send(BIO *bio, const char *bytes, int count) {
    int descriptor = -1;
    BIO_get_fd(bio, &descriptor);
    BIO_clear_retry_flags(bio);
    int sent = (int)send(descriptor, bytes, (size_t)count, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return sent;
}

/* Returns a client on a connected socket, which stays the caller's, for a server with this name or address; NULL
   without memory. To be called on one thread. */
static inline SSL *dipper_tls(SSL_CTX *settings, int descriptor, const char *host) {
    static BIO_METHOD *method;
    if (!method && (method = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE"))) {
        const BIO_METHOD *plain = BIO_s_socket();
        BIO_meth_set_write(method, dipper_tls_send);
        BIO_meth_set_read(method, BIO_meth_get_read(plain));
        BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(plain));
        BIO_meth_set_create(method, BIO_meth_get_create(plain));
        BIO_meth_set_destroy(method, BIO_meth_get_destroy(plain));
    }
    BIO *bio = method ? BIO_new(method) : NULL;
    SSL *client = bio ? SSL_new(settings) : NULL;
    if (!client) {
        BIO_free(bio);
        return NULL;
    }
    BIO_set_fd(bio, descriptor, BIO_NOCLOSE);
    SSL_set_bio(client, bio, bio);
    SSL_set_connect_state(client);
    SSL_set_mode(client, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    unsigned char address[sizeof(struct in6_addr)];
    int is_address = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    if (is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(client), host) == 1
                   : SSL_set1_host(client, host) == 1 && SSL_set_tlsext_host_name(client, host) == 1)
        return client;
    SSL_free(client);
    return NULL;
}
