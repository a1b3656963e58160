/* Lists of objects as S3's pages describe them, read whole or refused, and the MD5 of RFC 1321. */
#include "format/base/bytes.h"
#include "format/storage/buckets.h"
#include "format/storage/md5.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

/* What was taken, as "NAME BYTES VERSION;". */
static ff_status take(void *context, const char *name, const ff_object *object, ff_error *error) {
    return ff_buffer_printf(context, error, "%s %llu %s;", name, (unsigned long long)object->bytes,
                            object->version);
}

static void lists(const char *answer, const char *prefix, const char *wanted, const char *next) {
    ff_buffer found = {0};
    char *token;
    const ff_xml xml = {answer, strlen(answer)};
    assert_ok(ff_list_take(xml, prefix, take, &found, &token, error));
    assert_ok(ff_buffer_add(&found, "", 1, error));
    assert_string_equal(found.bytes, wanted);
    if (next)
        assert_string_equal(token, next);
    else
        assert_null(token);
    free(token);
    ff_buffer_free(&found);
}

static void refuses(const char *answer, const char *prefix, const char *words) {
    ff_buffer found = {0};
    char *token;
    const ff_xml xml = {answer, strlen(answer)};
    assert_fails(ff_list_take(xml, prefix, take, &found, &token, error), FF_BAD_DATA, words);
    assert_null(token);
    ff_buffer_free(&found);
}

#define LIST(text)                                                                                 \
    "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">" text "</ListBucketResult>"
#define ENTRY(key, bytes) "<Contents><Key>" key "</Key><Size>" bytes "</Size></Contents>"

static void test_lists(void **state) {
    (void)state;
    lists(LIST(""), "", "", NULL);
    lists(LIST("<IsTruncated>false</IsTruncated>" ENTRY("a/b", "7") ENTRY("a/c", "0")), "a",
          "b 7 ;c 0 ;", NULL);
    /* The order of the elements of an entry is free; a version has its quotes. */
    lists(LIST("<Contents><Size>3</Size><ETag>&quot;ab-2&#34;</ETag><Key>k</Key></Contents>"), "",
          "k 3 \"ab-2\";", NULL);
    /* Encoded names only if the answer says so. */
    lists(LIST("<EncodingType>url</EncodingType>" ENTRY("a+b%2Bc%C3%A9", "1")), "",
          "a b+c\xc3\xa9 1 ;", NULL);
    lists(LIST(ENTRY("a+b%2Bc &amp;lt; &#x3c;", "1")), "", "a+b%2Bc &lt; < 1 ;", NULL);
    lists(
        LIST(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>1/=&amp;</NextContinuationToken>" ENTRY(
                "x", "9")),
        "", "x 9 ;", "1/=&");
    lists(LIST("<Contents><Key>a</Key><Size>1</Size></Contents><CommonPrefixes><Prefix>b</Prefix>"
               "</CommonPrefixes>"),
          "", "a 1 ;", NULL);
}

static void test_refuses(void **state) {
    (void)state;
    refuses("<html>hello</html>", "", "is not a list of objects");
    refuses("", "", "is not a list of objects");
    refuses("<ListBucketResult>" ENTRY("a", "1"), "", "is not a list of objects");
    refuses(LIST("<IsTruncated>true</IsTruncated>" ENTRY("a", "1")), "", "ends in the middle");
    refuses(LIST("<Contents><Key>a</Key></Contents>"), "", "without a size");
    refuses(LIST("<Contents><Size>1</Size></Contents>"), "", "without a name");
    refuses(LIST(ENTRY("a", "-1")), "", "without a size");
    refuses(LIST(ENTRY("a", "1x")), "", "without a size");
    refuses(LIST(ENTRY("ab/c", "1")), "a", "ab/c, which is not below a");
    refuses(LIST("<EncodingType>url</EncodingType>" ENTRY("a%00b", "1")), "", "a zero byte");
    refuses(LIST(ENTRY("a&#0;b", "1")), "", "a zero byte");
}

static void test_md5(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= 80; step++) { /* in pieces of any size */
            ff_md5 md5;
            uint8_t digest[16];
            char text[33];
            const size_t length = strlen(cases[i][0]);
            ff_md5_begin(&md5);
            for (size_t at = 0; at < length; at += step)
                ff_md5_add(&md5, cases[i][0] + at, length - at < step ? length - at : step);
            ff_md5_end(&md5, digest);
            ff_hex(text, digest, sizeof digest);
            assert_string_equal(text, cases[i][1]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_refuses),
                                       cmocka_unit_test(test_md5)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
