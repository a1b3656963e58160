#include "format/cli/habits.h"

#include <stdbool.h>
#include <string.h>

/* Whether `name` is one of the words, which are separated by blanks or bars. */
static bool holds(const char *words, const char *name, size_t length) {
    for (const char *word = words; *word;) {
        const size_t own = strcspn(word, " |");
        if (own == length && strncmp(word, name, length) == 0) return true;
        word += own + (word[own] != 0);
    }
    return false;
}

const char *ff_habit_find(const ff_habit *habits, const char *name, size_t length) {
    for (; habits && habits->names; habits++)
        if (holds(habits->names, name, length)) return habits->here;
    return NULL;
}

const char *ff_habit_value(const char *value, const char *choices) {
    static const struct {
        const char *names, *here;
    } values[] = {
        {"uint8 byte", "u8"},          {"uint16", "u16"},    {"float16 fp16 half", "f16"},
        {"float32 fp32 float", "f32"}, {"bfloat16", "bf16"}, {"grey grayscale L", "gray"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (holds(values[i].names, value, strlen(value)) &&
            holds(choices, values[i].here, strlen(values[i].here)))
            return values[i].here;
    return NULL;
}
