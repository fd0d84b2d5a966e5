#include "CServerPages.h"

// Apple's and Debian's clang accept it in C17 too.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char openAPIBytes[] = {
#embed "../Resources/openapi.yaml"
};

const struct EmbeddedFile openAPIDocument = {openAPIBytes, sizeof openAPIBytes};
