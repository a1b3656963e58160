/* JPEGs that Pillow 9.4 cannot write, for the exactness tests: with restart intervals, one scan per
 * component. For each, standard output gets a line with its length and name, then its bytes. */
#include "tests/unit/make_jpeg.h"

static void print(const char *name, uint32_t width, uint32_t height, const way *how) {
    file jpeg = make_jpeg(width, height, how);
    printf("%zu %s %ux%u\n", jpeg.length, name, width, height);
    fwrite(jpeg.bytes, 1, jpeg.length, stdout);
    free(jpeg.bytes);
}

int main(void) {
    static const struct {
        const char *name;
        way how;
    } ways[] = {
        {"grey", {1, 1, 1, .restarts = true}},
        {"444", {1, 1, 3, .restarts = true}},
        {"422", {2, 1, 3, .restarts = true}},
        {"420", {2, 2, 3, .restarts = true}},
        {"arithmetic", {2, 2, 3, .arithmetic = true, .restarts = true}},
        {"arithmetic progressive", {2, 2, 3, .arithmetic = true, .progressive = true}},
        {"arithmetic of scans apart", {1, 1, 3, .arithmetic = true, .apart = true}},
        {"apart", {2, 2, 3, .restarts = true, .apart = true}},
        {"apart without restarts", {2, 1, 3, .apart = true}},
        {"progressive grey", {1, 1, 1, .progressive = true, .restarts = true}},
        {"progressive 444", {1, 1, 3, .progressive = true, .restarts = true}},
        {"progressive 420", {2, 2, 3, .progressive = true, .restarts = true}},
        {"progressive without restarts", {2, 2, 3, .progressive = true}},
    };
    static const uint32_t sizes[][2] = {{70, 40}, {33, 65}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            print(ways[i].name, sizes[s][0], sizes[s][1], &ways[i].how);
    /* Of more bytes than Pillow reads at once, 65536. */
    print("large", 640, 480, &(way){2, 2, 3, .restarts = false});
    print("large arithmetic", 640, 480, &(way){2, 2, 3, .arithmetic = true});
    return 0;
}
