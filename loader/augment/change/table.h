/* Tables of 256 values on the host: applied to planes of u8, and what they are made from. Thread
 * rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_TABLE_H
#define FF_LOADER_AUGMENT_CHANGE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* to[i] = table[from[i]]; `to` may be `from`. */
void ff_change_look_up(uint8_t *to, const uint8_t *from, size_t count, const uint8_t table[256]);
/* The portable version, for tests. */
void ff_change_look_up_plain(uint8_t *to, const uint8_t *from, size_t count,
                             const uint8_t table[256]);

/* How often each value occurs. */
void ff_change_count(const uint8_t *plane, size_t pixels, uint32_t count[256]);

/* The least and the greatest value of at least one. */
void ff_change_extremes(const uint8_t *plane, size_t pixels, uint8_t *low, uint8_t *high);

#endif
