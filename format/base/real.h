/* Real numbers as text, with a point in every locale: libffload runs in programs that may have set
 * one with a comma. Thread rule: pure. */
#ifndef FF_BASE_REAL_H
#define FF_BASE_REAL_H

#define FF_REAL_BYTES 32

/* As strtod in the C locale. */
double ff_real_read(const char *text, char **end);

/* Writes the value in the fewest digits, at least `digits`, that ff_real_read restores. */
void ff_real_write(double value, int digits, char text[FF_REAL_BYTES]);

#endif
