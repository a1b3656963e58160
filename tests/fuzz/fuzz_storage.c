/* Any bytes as a URL, and as the name of an object below one: a URL is refused or has a server, and
 * an encoded name decodes to itself. */
#include "format/storage/url.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_storage: line %d: %s\n", __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_name(const ff_url *url, const char *name) {
    char *object, *decoded;
    CHECK(ff_url_object(&object, url, name, NULL) == FF_OK);
    const size_t length = strlen(object), wanted = strlen(name);
    decoded = malloc(length + 1);
    if (!decoded) abort();
    CHECK(!strncmp(object, "http", 4) && !strpbrk(object + strlen(url->base), " <>\"\r\n\t"));
    const size_t got = ff_unescape(decoded, object, length);
    CHECK(got >= wanted && !memcmp(decoded + got - wanted, name, wanted));
    free(object);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1);
    if (!text) abort();
    memcpy(text, bytes, length);
    text[length] = 0;
    ff_url url;
    ff_error error = {0};
    const bool object = length % 2;
    const ff_status status = ff_url_parse(&url, text, NULL, "us-east-1", object, &error);
    CHECK(status == FF_OK || (status == FF_USAGE && error.message[0] && !url.text));
    if (status == FF_OK) {
        CHECK(!strncmp(url.base, "http", 4) && ff_url_scheme(text) >= 0);
        CHECK(url.bucket || !strpbrk(url.text, "?#"));
        CHECK(!url.query || !*url.query ||
              (object && *url.query == '?' && !strchr(url.query, '#')));
    }
    ff_url_free(&url);
    CHECK(ff_url_parse(&url, "s3://bucket/a b", NULL, "us-east-1", false, NULL) == FF_OK);
    check_name(&url, text);
    ff_url_free(&url);
    free(text);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
