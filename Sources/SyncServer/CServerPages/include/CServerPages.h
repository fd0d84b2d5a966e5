#include <stddef.h>

/// A file that the build embeds.
struct EmbeddedFile {
    const unsigned char *bytes;
    size_t count;
};

/// The OpenAPI document, Resources/openapi.yaml.
extern const struct EmbeddedFile openAPIDocument;
