/* Which kernels the tests with huge arrays must launch: all of the .cu files of the loader and the
 * training step, by their sources. A new kernel, or a new file, fails here until a test has it. */
#ifndef FF_TESTS_HUGE_KERNELS_H
#define FF_TESTS_HUGE_KERNELS_H

#include "tests/cuda/unit/huge.h"

#include <ctype.h>
#include <glob.h>

enum huge_program { HUGE_TENSORS, HUGE_WINDOWS, HUGE_UPDATE, HUGE_LOADER, HUGE_PROGRAMS };
static const char *const huge_files[HUGE_PROGRAMS] = {
    "bias.cu cast.cu columns.cu dropout.cu norm.cu norm_backward.cu norm_statistics.cu "
    "pointwise.cu ",
    "depthwise.cu pool.cu pool_backward.cu views.cu ", "gradients.cu loss.cu muon.cu update.cu ",
    "augment.cu change.cu give.cu move.cu move_plain.cu params.cu resample.cu "};

/* The program whose file it is; HUGE_PROGRAMS: none's. */
static inline int huge_owner(const char *path) {
    char word[64];
    snprintf(word, sizeof word, "%s ", strrchr(path, '/') + 1);
    for (int k = 0; k < HUGE_PROGRAMS; k++) {
        const char *at = strstr(huge_files[k], word);
        if (at && (at == huge_files[k] || at[-1] == ' ')) return k;
    }
    return HUGE_PROGRAMS;
}

static inline bool huge_was_launched(const char *path, const char *kernel) {
    for (int k = 0; k < huges.launched_count; k++) {
        const char *text = huges.launched[k].kernel;
        if (strstr(huges.launched[k].file, path) && strstr(text, kernel)) return true;
    }
    return false;
}

/* Returns the number of a file's kernels: names that end in _kernel, after __global__. */
static inline int huge_check_file(const char *path, bool launched) {
    static char text[100000];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "__global__")); count++) {
        const char *end = strstr(at, "_kernel(");
        assert_non_null(end);
        end += strlen("_kernel");
        const char *begin = end;
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_') begin--;
        char kernel[64];
        snprintf(kernel, sizeof kernel, "%.*s", (int)(end - begin), begin);
        if (launched && !huge_was_launched(path, kernel))
            fail_msg("%s: no test with huge arrays launches %s", path, kernel);
        at = end;
    }
    return count;
}

/* The program's last test. Run in the root of the sources. */
static inline void huge_check_kernels(enum huge_program program) {
    glob_t found;
    assert_int_equal(glob("loader/cuda/*.cu*", 0, NULL, &found), 0);
    assert_int_equal(glob("train/compute/cuda/kernels/*.cu*", GLOB_APPEND, NULL, &found), 0);
    int count = 0;
    for (size_t k = 0; k < found.gl_pathc; k++) {
        const int owner = huge_owner(found.gl_pathv[k]);
        const int kernels = huge_check_file(found.gl_pathv[k], owner == (int)program);
        if (kernels && owner == HUGE_PROGRAMS)
            fail_msg("%s has kernels, and stands in no line of huge_files", found.gl_pathv[k]);
        count += kernels;
    }
    globfree(&found);
    assert_in_range(count, 40, 200);
}

#endif
