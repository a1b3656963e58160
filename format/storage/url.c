#include "format/storage/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    ff_scheme scheme;
} schemes[] = {{"http://", FF_SCHEME_HTTP},
               {"https://", FF_SCHEME_HTTPS},
               {"s3://", FF_SCHEME_S3},
               {"gs://", FF_SCHEME_GS}};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

int ff_url_scheme(const char *text) {
    for (int i = 0; i < SCHEMES; i++)
        if (!strncasecmp(text, schemes[i].name, strlen(schemes[i].name)))
            return (int)schemes[i].scheme;
    return -1;
}

size_t ff_url_shown_bytes(const char *text) {
    const int scheme = ff_url_scheme(text);
    const bool web = scheme == FF_SCHEME_HTTP || scheme == FF_SCHEME_HTTPS;
    return web ? strcspn(text, "?#") : strlen(text);
}

ff_status ff_url_encode(ff_buffer *to, const char *text, bool slashes, ff_error *error) {
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool plain = (c < 0x80 && isalnum(c)) || strchr("-._~", c) || (slashes && c == '/');
        FF_TRY(ff_buffer_printf(to, error, plain ? "%c" : "%%%02X", c));
    }
    return FF_OK;
}

/* Without the slashes at its end that are not among the first `kept` bytes. */
static ff_status copy_trimmed(char **out, const char *text, size_t kept, size_t length,
                              ff_error *error) {
    while (length > kept && text[length - 1] == '/') length--;
    return ff_copy_bytes(out, text, length, error);
}

/* S3's names of buckets: 3 to 63 of a-z 0-9 . -; older ones also have A-Z and _. */
static bool is_bucket(const char *name) {
    const size_t length = strlen(name);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c >= 0x80 || (!isalnum((unsigned char)*c) && !strchr(".-_", *c)))
            return false;
    return length >= 3 && length <= 255;
}

const char *ff_url_domain(const char *region) {
    return strncmp(region, "cn-", 3) ? "amazonaws.com" : "amazonaws.com.cn";
}

static ff_status bucket_base(ff_url *url, const char *endpoint, const char *region,
                             ff_error *error) {
    char *server;
    if (endpoint) {
        FF_TRY(copy_trimmed(&server, endpoint, 0, strlen(endpoint), error));
        const ff_status status = ff_format(&url->base, error, "%s/%s", server, url->bucket);
        free(server);
        return status;
    }
    if (url->scheme == FF_SCHEME_GS)
        return ff_format(&url->base, error, "https://storage.googleapis.com/%s", url->bucket);
    /* A certificate for *.s3.REGION.amazonaws.com does not cover a name with a dot. */
    if (strchr(url->bucket, '.') || strchr(url->bucket, '_'))
        return ff_format(&url->base, error, "https://s3.%s.%s/%s", region, ff_url_domain(region),
                         url->bucket);
    return ff_format(&url->base, error, "https://%s.s3.%s.%s", url->bucket, region,
                     ff_url_domain(region));
}

static ff_status parse_bucket(ff_url *url, const char *rest, const char *endpoint,
                              const char *region, ff_error *error) {
    const size_t length = strcspn(rest, "/");
    FF_TRY(ff_copy_bytes(&url->bucket, rest, length, error));
    if (!is_bucket(url->bucket))
        return ff_fail(error, FF_USAGE, "%s: has no name of a bucket after %s", url->text,
                       schemes[url->scheme].name);
    if (endpoint && ff_url_scheme(endpoint) != FF_SCHEME_HTTP &&
        ff_url_scheme(endpoint) != FF_SCHEME_HTTPS)
        return ff_fail(error, FF_USAGE, "endpoint %s: does not begin with http:// or https://",
                       endpoint);
    const char *prefix = rest + length + (rest[length] == '/'); /* a key may begin with / */
    FF_TRY(copy_trimmed(&url->prefix, prefix, 0, strlen(prefix), error));
    return bucket_base(url, endpoint, region, error);
}

static ff_status parse_web(ff_url *url, const char *rest, bool object, ff_error *error) {
    const size_t host = strcspn(rest, "/?#"), path = strcspn(rest, "?#");
    if (!host) return ff_fail(error, FF_USAGE, "%s: names no server", url->text);
    if (memchr(rest, '@', host))
        return ff_fail(error, FF_USAGE, "%.*s...: a URL must not hold a user's name; ~/.netrc may",
                       (int)strlen(schemes[url->scheme].name), url->text);
    if (rest[path] && !object)
        return ff_fail(error, FF_USAGE, "%s: a URL with ? or # has no objects below it", url->text);
    FF_TRY(ff_copy_bytes(&url->query, rest + path, strcspn(rest + path, "#"), error));
    FF_TRY(ff_format(&url->base, error, "%s%.*s", schemes[url->scheme].name, (int)host, rest));
    const size_t slashes = strspn(rest + host, "/");
    return copy_trimmed(&url->prefix, rest + host + slashes, 0, path - host - slashes, error);
}

ff_status ff_url_parse(ff_url *url, const char *text, const char *endpoint, const char *region,
                       bool object, ff_error *error) {
    *url = (ff_url){0};
    const int scheme = ff_url_scheme(text);
    if (scheme < 0)
        return ff_fail(error, FF_USAGE, "%s: is not a URL of s3://, gs://, https:// or http://",
                       text);
    url->scheme = (ff_scheme)scheme;
    const char *rest = text + strlen(schemes[scheme].name);
    ff_status status =
        copy_trimmed(&url->text, text, (size_t)(rest - text), ff_url_shown_bytes(text), error);
    if (status == FF_OK)
        status = scheme == FF_SCHEME_S3 || scheme == FF_SCHEME_GS
                     ? parse_bucket(url, rest, endpoint, region, error)
                     : parse_web(url, rest, object, error);
    if (status != FF_OK) ff_url_free(url);
    return status;
}

void ff_url_free(ff_url *url) {
    free(url->text);
    free(url->base);
    free(url->prefix);
    free(url->bucket);
    free(url->query);
    *url = (ff_url){0};
}

static ff_status add_web_path(ff_buffer *to, const char *path, ff_error *error) {
    for (; *path; path++) {
        const unsigned char c = (unsigned char)*path;
        const bool none = c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c);
        FF_TRY(ff_buffer_printf(to, error, none ? "%%%02X" : "%c", c));
    }
    return FF_OK;
}

ff_status ff_url_object(char **object, const ff_url *url, const char *name, ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    *object = NULL;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "%s/", url->base));
    if (*url->prefix && !url->bucket) FF_TRY_DONE(add_web_path(&text, url->prefix, error));
    if (*url->prefix && url->bucket) FF_TRY_DONE(ff_url_encode(&text, url->prefix, true, error));
    if (*url->prefix && *name) FF_TRY_DONE(ff_buffer_add(&text, "/", 1, error));
    FF_TRY_DONE(ff_url_encode(&text, name, true, error));
    if (url->query) FF_TRY_DONE(ff_buffer_printf(&text, error, "%s", url->query));
    status = ff_copy_bytes(object, text.bytes, text.length, error);
done:
    ff_buffer_free(&text);
    return status;
}
