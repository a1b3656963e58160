/* What ranks read that others wrote: SLURM's lists of nodes and tasks, and the messages of the
 * control channel, on any bytes. What is accepted is written again to the same bytes. */
#include "tests/fuzz/driver.h"

#include "train/comm/job/channel_message.h"
#include "train/comm/job/node_list.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_ranks: line %d: %s\n", __LINE__, #condition);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_lists(const char *text) {
    ff_buffer host = {0};
    ff_error error = {0};
    uint64_t count, again, tasks;
    if (ff_node_list_host("V", text, 0, &host, &count, &error) == FF_OK) {
        const uint64_t indexes[] = {count / 2, count - 1};
        CHECK(count && count <= 1 << 20 && host.length);
        for (int i = 0; i < 2; i++) {
            host.length = 0;
            CHECK(ff_node_list_host("V", text, indexes[i], &host, &again, &error) == FF_OK);
            CHECK(host.length && !strpbrk(host.bytes, "[], ") && again == count);
        }
        CHECK(ff_node_list_host("V", text, count, &host, &again, &error) == FF_USAGE);
    }
    ff_buffer_free(&host);
    for (uint64_t i = 0; i < 3; i++)
        if (ff_node_list_tasks("V", text, i << 20 * i, &tasks, &error) != FF_OK)
            CHECK(error.status == FF_USAGE);
}

static void check_parts(const char *bytes, size_t length, int size) {
    ff_buffer parts[3] = {{0}}, body = {0}, again = {0};
    ff_error error = {0};
    CHECK(ff_buffer_add(&body, bytes, length, &error) == FF_OK);
    if (ff_parts_split(&body, parts, size, &error) == FF_OK) {
        CHECK(ff_parts_add(&again, parts, size, &error) == FF_OK && again.length == length);
        CHECK(!memcmp(again.bytes, bytes, length));
    }
    for (int i = 0; i < 3; i++) ff_buffer_free(&parts[i]);
    ff_buffer_free(&body);
    ff_buffer_free(&again);
}

static void check_hello(const ff_message *message) {
    ff_buffer again = {0};
    ff_error error = {0};
    ff_hello hello;
    if (ff_hello_parse(message, &hello, &error) != FF_OK) return;
    CHECK(hello.rank >= 0 && hello.size >= 0);
    CHECK(ff_hello_add(&again, &hello, &error) == FF_OK && again.length == message->length);
    CHECK(!memcmp(again.bytes, message->body, again.length));
    ff_buffer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1);
    ff_message message;
    ff_error error = {0};
    CHECK(text);
    if (length) memcpy(text, bytes, length);
    text[length] = 0;
    check_lists(text);
    for (int size = 1; size <= 3; size++) check_parts(text, length, size);
    check_hello(&(ff_message){FF_MESSAGE_HELLO, text, length});
    for (size_t at = 0, used = 1; used; at += used) {
        if (ff_message_parse(text + at, length - at, 3, &message, &used, &error) != FF_OK) break;
        CHECK(used <= length - at);
        if (!used) break;
        CHECK(message.body == text + at + FF_MESSAGE_HEADER);
        CHECK(!message.length ||
              (message.kind != FF_MESSAGE_BEAT && message.kind != FF_MESSAGE_BYE));
        if (message.kind == FF_MESSAGE_HELLO) check_hello(&message);
        if (message.kind == FF_MESSAGE_PARTS) check_parts(message.body, message.length, 3);
    }
    free(text);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
