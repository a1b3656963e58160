/* WebDataset's samples from any bytes: the first line is a brace pattern, then names of members,
 * one a line, up to an empty line; what follows is a .cls and a .json. */
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/shards/braces.h"
#include "tools/ffpack/source/webdataset/sample.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: line %d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void split(const char *name, ff_web_sample *sample) {
    size_t key_bytes;
    ff_web_member kind;
    if (!ff_web_split(name, &key_bytes)) return;
    CHECK(key_bytes < strlen(name) && name[key_bytes] == '.');
    CHECK(!strchr(name + key_bytes, '/'));
    bool same = sample->key.length == key_bytes && !memcmp(sample->key.bytes, name, key_bytes);
    if (!same) CHECK(ff_web_sample_begin(sample, name, key_bytes, NULL) == FF_OK);
    (void)!ff_web_sample_add(sample, name + key_bytes + 1, 1, 1, &kind, NULL);
    if (ff_web_sample_check(sample, NULL) == FF_OK) CHECK(sample->image < sample->extensions.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1);
    if (!text) return 0;
    memcpy(text, bytes, length);
    text[length] = 0;
    char *line = text, *next;
    ff_names names = {0};
    ff_web_sample sample = {0};
    for (int number = 0; *line && *line != '\n'; number++, line = next) {
        size_t line_length = strcspn(line, "\n");
        next = line + line_length + (line[line_length] != 0);
        line[line_length] = 0;
        /* Few digits, else only the limit on names would be tested. */
        if (number == 0 && line_length <= 24)
            (void)!ff_braces_expand(&names, line, NULL);
        else
            split(line, &sample);
    }
    static const char *const keys[] = {"label", "cls", "class"};
    ff_web_label label = {0};
    int64_t value;
    size_t used, left = length - (size_t)(line - text);
    if (ff_web_parse_cls(line, left, &value, NULL) == FF_OK) CHECK(left > 0);
    (void)!ff_web_parse_json(line, left, keys, 3, &label, &used, NULL);
    if (label.kind != FF_WEB_NONE) CHECK(used < 3);
    ff_names_free(&names);
    ff_web_sample_free(&sample);
    ff_buffer_free(&label.name);
    free(text);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
