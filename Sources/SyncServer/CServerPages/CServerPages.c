#include "CServerPages.h"

// Apple's and Debian's clang accept it in C17 too.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char openAPIBytes[] = {
#embed "../Resources/openapi.yaml"
};

const struct EmbeddedFile openAPIDocument = {openAPIBytes, sizeof openAPIBytes};

static const unsigned char consoleIndexHtml[] = {
#embed "../Resources/console/index.html"
};

static const unsigned char consoleStyleCss[] = {
#embed "../Resources/console/style.css"
};

static const unsigned char consoleMainJs[] = {
#embed "../Resources/console/main.js"
};

static const unsigned char consoleApiJs[] = {
#embed "../Resources/console/api.js"
};

static const unsigned char consoleDomJs[] = {
#embed "../Resources/console/dom.js"
};

static const unsigned char consoleSearchJs[] = {
#embed "../Resources/console/search.js"
};

static const unsigned char consoleCustomerJs[] = {
#embed "../Resources/console/customer.js"
};

static const unsigned char consoleTimelineJs[] = {
#embed "../Resources/console/timeline.js"
};

static const unsigned char consoleActsJs[] = {
#embed "../Resources/console/acts.js"
};

static const unsigned char consoleOverviewJs[] = {
#embed "../Resources/console/overview.js"
};

static const unsigned char consoleChartsJs[] = {
#embed "../Resources/console/charts.js"
};

static const unsigned char consoleCatalogJs[] = {
#embed "../Resources/console/catalog.js"
};

static const unsigned char consoleIconSvg[] = {
#embed "../Resources/console/icon.svg"
};

static const struct ConsolePage consolePages[] = {
    {"index.html", {consoleIndexHtml, sizeof consoleIndexHtml}},
    {"style.css", {consoleStyleCss, sizeof consoleStyleCss}},
    {"main.js", {consoleMainJs, sizeof consoleMainJs}},
    {"api.js", {consoleApiJs, sizeof consoleApiJs}},
    {"dom.js", {consoleDomJs, sizeof consoleDomJs}},
    {"search.js", {consoleSearchJs, sizeof consoleSearchJs}},
    {"customer.js", {consoleCustomerJs, sizeof consoleCustomerJs}},
    {"timeline.js", {consoleTimelineJs, sizeof consoleTimelineJs}},
    {"acts.js", {consoleActsJs, sizeof consoleActsJs}},
    {"overview.js", {consoleOverviewJs, sizeof consoleOverviewJs}},
    {"charts.js", {consoleChartsJs, sizeof consoleChartsJs}},
    {"catalog.js", {consoleCatalogJs, sizeof consoleCatalogJs}},
    {"icon.svg", {consoleIconSvg, sizeof consoleIconSvg}},
};

const struct ConsolePage *consolePage(size_t index) {
    return index < sizeof consolePages / sizeof *consolePages ? &consolePages[index] : 0;
}
