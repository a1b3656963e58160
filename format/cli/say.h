/* How numbers are printed for people, the same in every program: counts with their noun, large
 * rates without decimals, sizes in binary units. Numbers for machines (JSON) stay plain.
 *
 * The text is in the returned struct, so it can be used as an argument:
 *     fprintf(out, "%s in %s\n", ff_say_count(n, "item", "items").text, ff_say_bytes(b).text);
 * The text lives until the end of that expression; to keep it longer, keep the struct. */
#ifndef FF_FORMAT_BASE_SAY_H
#define FF_FORMAT_BASE_SAY_H

#include <stdint.h>

typedef struct ff_said {
    char text[56];
} ff_said;

/* "1 item", "60000 items". */
ff_said ff_say_count(uint64_t count, const char *one, const char *many);

/* "28775 samples/s"; three digits below 100: "3.42 items/s", "34.2 items/s". A rate that is not
 * finite or below 0 is "?". */
ff_said ff_say_rate(double per_second, const char *units);

/* "812 B", "1.5 KiB", "94.6 MiB", and two decimals from "1.00 GiB" up; 1024 of a unit are printed
 * in the next unit. */
ff_said ff_say_bytes(uint64_t bytes);

/* "1.04 GiB/s". */
ff_said ff_say_byte_rate(double bytes_per_second);

#endif
