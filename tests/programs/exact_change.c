/* Changes of u8 for comparison with torchvision. Commands on standard input:
 *   apply COUNT CHANNELS HEIGHT WIDTH
 *       and COUNT lines "NAME NUMBER" (affine: five, as F.affine has them; blur: size and sigma;
 *       names of affine changes may end in _bilinear; mix and chain: the weight), then the planes
 * of an image; prints the changed planes. draw WORDS SEED EPOCH SAMPLES HEIGHT WIDTH prints a line
 * for each sample from 0 on: its changes by --augment WORDS, each as "KIND:NUMBER:NUMBER..." with
 * hexadecimal numbers. */
#include "loader/augment/augment.h"
#include "loader/augment/change/apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of ff_change_kind. */
static const char *const name[] = {"posterize",    "solarize", "invert", "brightness", "equalize",
                                   "autocontrast", "contrast", "color",  "grayscale",  "sharpness"};

/* An affine change; 1 if the word means another change, or numbers are missing. */
static int add_affine(ff_changes *changes, const char *word, double number, uint32_t height,
                      uint32_t width) {
    const int bilinear = strstr(word, "_bilinear") != NULL;
    double right, down, scale, shear;
    if (strncmp(word, "rotate", 6) == 0)
        ff_changes_add_rotation(changes, bilinear, number, height, width);
    else if (strncmp(word, "shear_x", 7) == 0)
        ff_changes_add_shear(changes, bilinear, number, 0, height, width);
    else if (strncmp(word, "shear_y", 7) == 0)
        ff_changes_add_shear(changes, bilinear, 0, number, height, width);
    else if (strncmp(word, "affine", 6) == 0 &&
             scanf("%lf %lf %lf %lf", &right, &down, &scale, &shear) == 4)
        ff_changes_add_affine(changes, bilinear, number, right, down, scale, shear, height, width);
    else
        return 1;
    return 0;
}

static int add(ff_changes *changes, const char *word, double number) {
    static const char *const sums[] = {"mix", "chain", "mixed"};
    double sigma;
    for (uint32_t k = 0; k < 3; k++)
        if (strcmp(word, sums[k]) == 0) {
            ff_changes_add(changes, (ff_change_kind)(FF_CHANGE_MIX + k), number);
            return 0;
        }
    if (strcmp(word, "blur") == 0 && scanf("%lf", &sigma) == 1) {
        ff_changes_add(changes, FF_CHANGE_BLUR, number);
        changes->change[changes->count - 1].value[1] = (float)sigma;
        return 0;
    }
    for (uint32_t k = 0; k < sizeof name / sizeof *name; k++)
        if (strcmp(word, name[k]) == 0) {
            ff_changes_add(changes, (ff_change_kind)k, number);
            return 0;
        }
    fprintf(stderr, "exact_change: unknown change '%s'\n", word);
    return 1;
}

static int apply(void) {
    uint32_t count, channels, height, width;
    ff_changes changes = {0};
    if (scanf("%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &count, &channels, &height, &width) !=
        4)
        return 1;
    for (uint32_t k = 0; k < count; k++) {
        char word[32];
        double number;
        if (scanf("%31s %lf", word, &number) != 2) return 1;
        if (add_affine(&changes, word, number, height, width) && add(&changes, word, number))
            return 1;
    }
    const size_t values = (size_t)channels * height * width;
    uint8_t *images = malloc((6 + FF_AUGMIX_CHAINS_MOST) * values);
    int wrong = getchar() != '\n' || !images || fread(images, 1, values, stdin) != values;
    if (!wrong)
        fwrite(ff_change_apply(&changes, images, channels, height, width), 1, values, stdout);
    free(images);
    return wrong;
}

static int draw(void) {
    char words[512];
    uint64_t seed, samples;
    uint32_t epoch, height, width;
    ff_augment_spec spec;
    ff_error error = {0};
    if (scanf("%511s %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32, words, &seed,
              &epoch, &samples, &height, &width) != 6)
        return 1;
    if (ff_augment_parse(&spec, words, &error) != FF_OK) {
        fprintf(stderr, "exact_change: %s\n", error.message);
        return 1;
    }
    for (uint64_t sample = 0; sample < samples; sample++) {
        ff_changes changes;
        ff_changes_at(&changes, &spec.change, seed, epoch, sample, height, width);
        for (uint32_t k = 0; k < changes.count; k++) {
            printf("%s%" PRIu32, k ? " " : "", changes.change[k].kind);
            for (int i = 0; i < 6; i++) printf(":%a", (double)changes.change[k].value[i]);
        }
        putchar('\n');
    }
    return 0;
}

int main(void) {
    char command[16];
    while (scanf("%15s", command) == 1)
        if (strcmp(command, "apply") == 0 ? apply() : draw()) {
            fprintf(stderr, "exact_change: bad input\n");
            return 1;
        }
    return 0;
}
