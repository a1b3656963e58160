/* `write_events FOLDER`: an event file with ordinary and odd records, for tests that read it. */
#include "train/report/events/events.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', 13,  10,   26,   10,   0,    0,    0,    13,
                                  'I',  'H', 'D', 'R', 0,   0,    0,    1,    0,    0,    0,    1,
                                  8,    2,   0,   0,   0,   0x90, 0x77, 0x53, 0xde, 0,    0,    0,
                                  12,   'I', 'D', 'A', 'T', 8,    0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0,
                                  0,    3,   1,   1,   0,   0x18, 0xdd, 0x8d, 0xb0, 0,    0,    0,
                                  0,    'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    ff_events *events;
    ff_error error = {0};
    char longest[1001];
    memset(longest, 'x', 1000);
    longest[1000] = 0;
    if (argc != 2 || ff_events_create(&events, argv[1], &error) != FF_OK) {
        fprintf(stderr, "write_events: %s\n", argc == 2 ? error.message : "FOLDER");
        return 1;
    }
    ff_events_scalar(events, "train/loss", 0, 2.25);
    ff_events_scalar(events, "train/loss", 1, NAN);
    ff_events_scalar(events, "train/loss", 2, INFINITY);
    ff_events_scalar(events, "train/loss", 3, -INFINITY);
    ff_events_scalar(events, "train/loss", 4, 1e300);
    ff_events_scalar(events, "train/loss", UINT64_C(1) << 40, 0.1);
    ff_events_scalar(events, "", 5, 1);
    ff_events_scalar(events, "a tag \"with\" <odd>\n\tletters %", 5, 2);
    ff_events_scalar(events, "K\xc3\xa4se/\xe7\x8c\xab", 5, 3);
    ff_events_scalar(events, "not\xff utf-8", 5, 4);
    ff_events_scalar(events, longest, 5, 5);
    const ff_buffer image = {.bytes = (char *)png, .length = sizeof png};
    const ff_buffer none = {0};
    ff_events_image(events, "sheet", 6, &image, 1, 1);
    ff_events_image(events, "nothing", 6, &none, 0, 0);
    const ff_status status = ff_events_flush(events, &error);
    ff_events_close(&events);
    if (status != FF_OK) fprintf(stderr, "write_events: %s\n", error.message);
    return status != FF_OK;
}
