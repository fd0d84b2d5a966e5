// A GET with libcurl's easy interface alone: the baseline for clients.
#ifndef RAW_CURL_H
#define RAW_CURL_H

#include <stddef.h>

typedef struct raw_get raw_get;

// Creates a handle for repeated requests of `url` over a persistent connection. `tag` is the value of If-None-Match or
// NULL. `certificates` is a PEM file, or NULL for plain HTTP. Returns NULL if libcurl cannot create a handle.
raw_get *raw_get_new(const char *url, const char *token, const char *tag, const char *certificates);

// Sends one request. Returns the status of the answer, or 0 if there was none, and sets `byte_count` to the length of
// the body.
long raw_get_perform(raw_get *get, size_t *byte_count);

// Returns the HTTP version of the last answer, times 10: 11 or 20.
int raw_get_version(raw_get *get);

void raw_get_free(raw_get *get);

#endif
