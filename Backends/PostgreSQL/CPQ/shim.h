// C helpers for Swift: libpq, a thread, and a descriptor that wakes it.
#ifndef ENTITLEMENTSYNC_CPQ_H
#define ENTITLEMENTSYNC_CPQ_H

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

// Version 14 introduced pipeline mode.
#ifndef LIBPQ_HAS_PIPELINING
#error "PostgreSQLStorage needs libpq 14 or later"
#endif

// Starts a detached thread with all signals blocked, so that neither SIGPIPE from a broken connection nor a signal
// handler of the program runs on it. Returns 0 or an error number.
static inline int cpq_start_thread(void *(*body)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int code = pthread_create(&thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) pthread_detach(thread);
    return code;
}

// Creates a pipe that no program started by this process inherits. Returns 0 or -1.
static inline int cpq_make_pipe(int *descriptors) {
    if (pipe(descriptors) != 0) return -1;
    for (int end = 0; end < 2; end++) {
        fcntl(descriptors[end], F_SETFD, FD_CLOEXEC);
        fcntl(descriptors[end], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

#endif
