// A GET by libcurl's easy interface and nothing else: what a client over the same wire is held against.
#ifndef RAW_CURL_H
#define RAW_CURL_H

#include <stddef.h>

typedef struct raw_get raw_get;

// A handle that asks for `url` again and again, over a connection that it keeps. `tag` goes into If-None-Match unless it
// is NULL; `certificates` is a file in PEM, NULL for plain HTTP. NULL where libcurl gives no handle.
raw_get *raw_get_new(const char *url, const char *token, const char *tag, const char *certificates);

// Asks once; the status of the answer, 0 where none came. `byte_count` gets the length of its body.
long raw_get_perform(raw_get *get, size_t *byte_count);

// Which HTTP the last answer came over: 10 times the version, 11 or 20.
int raw_get_version(raw_get *get);

void raw_get_free(raw_get *get);

#endif
