/* The words of --augment that change values of u8: read and printed. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_WORDS_H
#define FF_LOADER_AUGMENT_CHANGE_WORDS_H

#include "loader/augment/change/draw.h"
#include "loader/augment/text.h"

/* Each reads the text after "NAME=", which it may modify; NULL without a value. */
bool ff_change_parse_affine(ff_change_spec *spec, char *value);
bool ff_change_parse_trivial(ff_change_spec *spec, char *value);
bool ff_change_parse_rand(ff_change_spec *spec, char *value);
bool ff_change_parse_auto(ff_change_spec *spec, char *value);
bool ff_change_parse_augmix(ff_change_spec *spec, char *value);
bool ff_change_parse_blur(ff_change_spec *spec, char *value);
bool ff_chance_parse(ff_change_spec *spec, ff_chance chance, char *value);
/* Each adds "=VALUE"; false where the spec does not have it. */
bool ff_change_print_affine(const ff_change_spec *spec, ff_text text);
bool ff_change_print_trivial(const ff_change_spec *spec, ff_text text);
bool ff_change_print_rand(const ff_change_spec *spec, ff_text text);
bool ff_change_print_auto(const ff_change_spec *spec, ff_text text);
bool ff_change_print_augmix(const ff_change_spec *spec, ff_text text);
bool ff_change_print_blur(const ff_change_spec *spec, ff_text text);
bool ff_chance_print(const ff_change_spec *spec, ff_chance chance, ff_text text);

#endif
