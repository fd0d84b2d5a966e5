#include "raw_curl.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

struct raw_get {
    CURL *handle;
    struct curl_slist *fields;
    size_t byte_count;
};

static size_t count_bytes(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    *(size_t *)context += size * count;
    return size * count;
}

static struct curl_slist *add_field(struct curl_slist *fields, const char *name, const char *value) {
    char line[8192];
    snprintf(line, sizeof line, "%s%s", name, value);
    return curl_slist_append(fields, line);
}

raw_get *raw_get_new(const char *url, const char *token, const char *tag, const char *certificates) {
    raw_get *get = calloc(1, sizeof *get);
    if (!get) return NULL;
    get->handle = curl_easy_init();
    if (!get->handle) {
        free(get);
        return NULL;
    }
    get->fields = add_field(NULL, "Authorization: Bearer ", token);
    if (tag) get->fields = add_field(get->fields, "If-None-Match: ", tag);
    curl_easy_setopt(get->handle, CURLOPT_URL, url);
    curl_easy_setopt(get->handle, CURLOPT_HTTPHEADER, get->fields);
    curl_easy_setopt(get->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(get->handle, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(get->handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(get->handle, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(get->handle, CURLOPT_WRITEDATA, &get->byte_count);
    if (certificates) curl_easy_setopt(get->handle, CURLOPT_CAINFO, certificates);
    return get;
}

long raw_get_perform(raw_get *get, size_t *byte_count) {
    long status = 0;
    get->byte_count = 0;
    if (curl_easy_perform(get->handle) != CURLE_OK) return 0;
    curl_easy_getinfo(get->handle, CURLINFO_RESPONSE_CODE, &status);
    *byte_count = get->byte_count;
    return status;
}

int raw_get_version(raw_get *get) {
    long version = 0;
    curl_easy_getinfo(get->handle, CURLINFO_HTTP_VERSION, &version);
    return version == CURL_HTTP_VERSION_2_0 ? 20 : version == CURL_HTTP_VERSION_1_1 ? 11 : 0;
}

void raw_get_free(raw_get *get) {
    curl_easy_cleanup(get->handle);
    curl_slist_free_all(get->fields);
    free(get);
}
