// C helpers for Swift: typed wrappers of libcurl's variadic functions, a thread, a gate and the handling of SIGPIPE.
#ifndef ENTITLEMENTSYNC_CCURL_H
#define ENTITLEMENTSYNC_CCURL_H

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

// Version 7.80 introduced CURLOPT_PREREQFUNCTION, which shows that a request is about to be sent.
#if LIBCURL_VERSION_NUM < 0x075000
#error "CurlTransport needs libcurl 7.80 or later"
#endif

typedef size_t (*ccurl_write_function)(char *bytes, size_t size, size_t count, void *context);
typedef curl_socket_t (*ccurl_opensocket_function)(
    void *context, curlsocktype purpose, struct curl_sockaddr *address);
typedef int (*ccurl_prereq_function)(
    void *context, char *remote_address, char *local_address, int remote_port, int local_port);

// Must be called once, before all other functions.
static inline CURLcode ccurl_global_init(void) {
    return curl_global_init(CURL_GLOBAL_DEFAULT);
}

static inline CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_offset(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_write_function(CURL *handle, CURLoption option, ccurl_write_function value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_prereq_function(CURL *handle, ccurl_prereq_function value) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, value);
}

// Trusts only the given certificates, `count` bytes in PEM format.
static inline CURLcode ccurl_set_certificates(CURL *handle, void *bytes, size_t count) {
    struct curl_blob blob = {bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
}

// Allows only HTTP and HTTPS.
static inline CURLcode ccurl_set_protocols(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static inline CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

static inline int ccurl_close_on_exec(void *context, curl_socket_t descriptor, curlsocktype purpose) {
    (void)context;
    (void)purpose;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return CURL_SOCKOPT_OK;
}

// Closes sockets in programs that this process starts. Otherwise a connection would stay open in such a program.
static inline CURLcode ccurl_set_close_on_exec(CURL *handle) {
    return curl_easy_setopt(handle, CURLOPT_SOCKOPTFUNCTION, ccurl_close_on_exec);
}

static inline CURLcode ccurl_set_opensocket_function(CURL *handle, ccurl_opensocket_function value) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, value);
}

// Copies the IP address of `address` to `bytes`, and returns its length: 4, 16, or 0 for an address of another kind.
static inline size_t ccurl_ip_address(const struct curl_sockaddr *address, unsigned char bytes[16]) {
    if (address->family == AF_INET) {
        memcpy(bytes, &((const struct sockaddr_in *)&address->addr)->sin_addr, 4);
        return 4;
    }
    if (address->family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)&address->addr)->sin6_addr, 16);
        return 16;
    }
    return 0;
}

static inline curl_socket_t ccurl_open_socket(const struct curl_sockaddr *address) {
    return socket(address->family, address->socktype, address->protocol);
}

// Returns the handle of the next finished transfer and sets `result`; NULL if there is none.
static inline CURL *ccurl_next_finished(CURLM *multi, CURLcode *result) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}

// Starts a detached thread with all signals blocked, so that neither SIGPIPE from a broken connection nor a signal
// handler of the program runs on it. Returns 0 or an error number.
static inline int ccurl_start_thread(void *(*body)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int code = pthread_create(&thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) pthread_detach(thread);
    return code;
}

// A gate at which one thread waits until another thread opens it. It closes again once the waiting thread has passed.
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool is_open;
} ccurl_gate;

static inline void ccurl_gate_init(ccurl_gate *gate) {
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_cond_init(&gate->condition, NULL);
    gate->is_open = false;
}

static inline void ccurl_gate_destroy(ccurl_gate *gate) {
    pthread_cond_destroy(&gate->condition);
    pthread_mutex_destroy(&gate->mutex);
}

static inline void ccurl_gate_open(ccurl_gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    gate->is_open = true;
    pthread_cond_signal(&gate->condition);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void ccurl_gate_wait(ccurl_gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    while (!gate->is_open) pthread_cond_wait(&gate->condition, &gate->mutex);
    gate->is_open = false;
    pthread_mutex_unlock(&gate->mutex);
}

// Blocks SIGPIPE on a caller's thread and returns the previous signal mask, for `ccurl_release_pipe_signal`.
static inline sigset_t ccurl_hold_pipe_signal(void) {
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    return before;
}

// Discards a pending SIGPIPE of a broken connection and restores the signal mask.
static inline void ccurl_release_pipe_signal(sigset_t before) {
    if (sigismember(&before, SIGPIPE) == 1) return;
    sigset_t pending, pipe;
    int taken;
    sigemptyset(&pending);
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigwait(&pipe, &taken);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
