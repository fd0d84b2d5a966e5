// Preloaded into what ThreadSanitizer watches (LD_PRELOAD). Where a Mutex of Swift's Synchronization is contended, it is
// locked and unlocked inside of a library that is not instrumented: ThreadSanitizer would see two threads in what the
// mutex guards, and nothing between them. These functions stand before the library's and say what they do. Locking
// without contention is inlined into the program, and seen without help.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Of ThreadSanitizer; null in programs without it, such as those that a test starts.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

static void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "mutex-annotations: %s\n", dlerror());
        abort();
    }
    return function;
}

SWIFT void lock(uint32_t thread, SELF void *handle) __asm__(LOCK);
SWIFT void lock(uint32_t thread, SELF void *handle) {
    ((SWIFT void (*)(uint32_t, SELF void *))next(LOCK))(thread, handle);
    if (__tsan_acquire) __tsan_acquire(handle);
}

SWIFT void unlock(SELF void *handle) __asm__(UNLOCK);
SWIFT void unlock(SELF void *handle) {
    if (__tsan_release) __tsan_release(handle);
    ((SWIFT void (*)(SELF void *))next(UNLOCK))(handle);
}

SWIFT _Bool try(SELF void *handle) __asm__(TRY);
SWIFT _Bool try(SELF void *handle) {
    _Bool isLocked = ((SWIFT _Bool (*)(SELF void *))next(TRY))(handle);
    if (isLocked && __tsan_acquire) __tsan_acquire(handle);
    return isLocked;
}
