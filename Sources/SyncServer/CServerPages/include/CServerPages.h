#include <stddef.h>

/// A file that the build embeds.
struct EmbeddedFile {
    const unsigned char *bytes;
    size_t count;
};

/// The OpenAPI document, Resources/openapi.yaml.
extern const struct EmbeddedFile openAPIDocument;

/// A file of the console.
struct ConsolePage {
    const char *name;
    struct EmbeddedFile file;
};

/// The file of the console with this index, Resources/console; a null pointer beyond the last one.
const struct ConsolePage *consolePage(size_t index);
