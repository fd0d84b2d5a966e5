// Preloaded into a server (LD_PRELOAD). Writes the number of heap bytes in use once a second, to tell a leak from memory
// that the allocator keeps. HEAP_FIGURES names the file, which contains only the latest figure.

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *watch(void *argument) {
    int file = (int)(intptr_t)argument;
    for (;;) {
        struct mallinfo2 heap = mallinfo2();
        char text[32];
        int length = snprintf(text, sizeof text, "%019zu\n", heap.uordblks + heap.hblkhd);
        if (pwrite(file, text, (size_t)length, 0) != length) {
            // A stale figure would look like a heap that does not grow.
            perror("heap-figures");
            abort();
        }
        sleep(1);
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HEAP_FIGURES");
    if (path == NULL) return;
    // Stays open, so that the number of descriptors of the server is constant.
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    // Signals are left to the server.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    if (file < 0 || pthread_create(&thread, NULL, watch, (void *)(intptr_t)file) != 0) {
        perror("heap-figures");
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
