// A C helper for Swift: libcrypt, whose state is a large structure that has to be wiped.
#ifndef ENTITLEMENTSYNC_CCRYPT_H
#define ENTITLEMENTSYNC_CCRYPT_H

#ifdef __linux__
#include <crypt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Hashes `phrase` as `setting` says. `result` receives the hash as text. Returns 0 or an error number. Threads may call
// it at the same time. The memory that it used is wiped.
static inline int ccrypt_hash(const char *phrase, const char *setting, char *result, size_t size) {
    struct crypt_data *data = (struct crypt_data *)calloc(1, sizeof *data);
    if (!data) return ENOMEM;
    errno = 0;
    const char *hash = crypt_rn(phrase, setting, data, (int)sizeof *data);
    int code = 0;
    if (!hash) {
        code = errno ? errno : EINVAL;
    } else if (strlen(hash) >= size) {
        code = ERANGE;
    } else {
        memcpy(result, hash, strlen(hash) + 1);
    }
    explicit_bzero(data, sizeof *data);
    free(data);
    return code;
}

// Overwrites `count` bytes. The compiler does not leave it out.
static inline void ccrypt_wipe(void *bytes, size_t count) {
    explicit_bzero(bytes, count);
}
#endif
#endif
