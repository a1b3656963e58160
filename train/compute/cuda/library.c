#include "train/compute/cuda/library.h"

#include <stdarg.h>
#include <stdio.h>

void ff_library_conv_text(const ff_library_conv_spec *spec, char text[FF_LIBRARY_CONV_TEXT]) {
    static const char *const passes[] = {"forward", "backward-data", "backward-weights"};
    static const char *const prologues[] = {"", " scale-shift-relu"};
    static const char *const epilogues[] = {"",
                                            " bias",
                                            " bias-relu",
                                            " bias-gelu",
                                            " statistics",
                                            " relu-backward",
                                            " relu-norm-backward"};
    char groups[24] = ""; /* omitted for one group: plans cached by earlier versions stay valid */
    if (spec->groups > 1) snprintf(groups, sizeof groups, " groups%d", spec->groups);
    snprintf(text, FF_LIBRARY_CONV_TEXT,
             "%s %s n%d h%d w%d c%d k%d kernel%d stride%d pad%d%s%s%s%s", passes[spec->pass],
             ff_precision_name(spec->precision), spec->n, spec->h, spec->w, spec->c, spec->k,
             spec->kernel, spec->stride, spec->pad, groups, prologues[spec->prologue],
             epilogues[spec->epilogue], spec->f32_gradient ? " f32-gradient" : "");
}

bool ff_library_conv_same(const ff_library_conv_spec *a, const ff_library_conv_spec *b) {
    return a->pass == b->pass && a->precision == b->precision && a->n == b->n && a->h == b->h &&
           a->w == b->w && a->c == b->c && a->k == b->k && a->kernel == b->kernel &&
           a->stride == b->stride && a->pad == b->pad && a->groups == b->groups &&
           a->prologue == b->prologue && a->epilogue == b->epilogue &&
           a->f32_gradient == b->f32_gradient;
}

ff_library_conv_sizes ff_library_conv_bytes(const ff_library_conv_spec *spec) {
    size_t element = ff_dtype_bytes(ff_precision_dtype(spec->precision));
    size_t n = (size_t)spec->n, c = (size_t)spec->c, k = (size_t)spec->k;
    size_t out =
        (size_t)ff_library_conv_out(spec, spec->h) * (size_t)ff_library_conv_out(spec, spec->w);
    return (ff_library_conv_sizes){
        .x = n * (size_t)spec->h * (size_t)spec->w * c * element,
        .w = k * (size_t)spec->kernel * (size_t)spec->kernel * (c / (size_t)spec->groups) *
             (spec->f32_gradient ? sizeof(float) : element),
        .y = n * out * k * element,
    };
}

void ff_library_note(const ff_library_options *options, const char *format, ...) {
    char line[1024];
    if (!options->note) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    options->note(options->note_context, line);
}
