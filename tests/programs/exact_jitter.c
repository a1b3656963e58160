/* Colour jitter for comparison with torchvision: lines on standard input
 *   "SEED EPOCH SAMPLE CHANNELS HEIGHT WIDTH BRIGHTNESS CONTRAST SATURATION HUE"
 * with the image's planes of f32 after each, in [0, 1], produce on standard output
 *   "FACTOR FACTOR FACTOR FACTOR CHANGE..." (hexadecimal factors, changes as numbers in their
 * order) and the changed planes. */
#include "loader/augment/jitter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    uint64_t seed, sample;
    uint32_t epoch, channels, height, width;
    double amount[4];
    while (scanf("%" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32
                 " %lf %lf %lf %lf",
                 &seed, &epoch, &sample, &channels, &height, &width, &amount[0], &amount[1],
                 &amount[2], &amount[3]) == 10) {
        const size_t pixels = (size_t)height * width, values = channels * pixels;
        float *image = malloc(values * sizeof *image);
        if (getchar() != '\n' || !image || fread(image, sizeof *image, values, stdin) != values) {
            fprintf(stderr, "exact_jitter: bad input\n");
            free(image);
            return 1;
        }
        const ff_jitter jitter = ff_jitter_at(amount, seed, epoch, sample);
        for (int k = 0; k < 4; k++) printf("%s%a", k ? " " : "", (double)jitter.factor[k]);
        for (uint32_t k = 0; k < jitter.count; k++) printf(" %d", jitter.order[k]);
        putchar('\n');
        ff_jitter_apply(&jitter, image, channels, pixels);
        fwrite(image, sizeof *image, values, stdout);
        free(image);
    }
    return feof(stdin) ? 0 : 1;
}
