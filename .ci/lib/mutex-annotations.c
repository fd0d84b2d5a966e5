// Preloaded into programs that run under ThreadSanitizer (LD_PRELOAD). A contended Mutex of Swift's Synchronization module
// is locked and unlocked in a library that is not instrumented, so ThreadSanitizer would miss the synchronization and
// report a false race. These functions wrap the library's functions and annotate them. The uncontended path is inlined
// into the program and needs no annotation.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Provided by ThreadSanitizer. Null in programs without it, such as tools that a test starts.
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
