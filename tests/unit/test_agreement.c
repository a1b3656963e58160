/* Training and validation sets that do not belong together are refused, whichever of the two is the
 * larger; the names of precisions. */
#include "tests/unit/format_set.h"

#include "train/compute/precision.h"
#include "train/sets/agreement.h"

static char *write_set(uint32_t channels) {
    char *folder = new_folder();
    const set_spec spec = {.dtype = FF_U8,
                           .layout = FF_CHW,
                           .channels = channels,
                           .height = 6,
                           .width = 5,
                           .alignment = 64,
                           .items = 9,
                           .labels = LABELS_CLASS,
                           .seed = 8};
    assert_ok(set_write(&spec, folder, NULL, error));
    return folder;
}

static ff_status agree(const ff_dataset *train, const ff_dataset *val, ff_agreement_fit fit,
                       ff_error *error) {
    const ff_agreement_side one = ff_agreement_of(train, 0), other = ff_agreement_of(val, 0);
    return ff_agreement_check(&one, &other, fit, error);
}

/* Refused both ways; *changed is a part of one set's metadata. */
#define REFUSED_WITH(a, b, changed, other, text)                                                   \
    do {                                                                                           \
        const __typeof__(changed) kept_ = (changed);                                               \
        (changed) = (other);                                                                       \
        assert_fails(agree(a, b, FF_FIT_WHOLE, error), FF_BAD_DATA, text);                         \
        assert_fails(agree(b, a, FF_FIT_WHOLE, error), FF_BAD_DATA, text);                         \
        (changed) = kept_;                                                                         \
        assert_ok(agree(a, b, FF_FIT_WHOLE, error));                                               \
    } while (0)

static void differences_are_refused(void **state) {
    (void)state;
    char *folder = write_set(2);
    ff_dataset *a, *b;
    assert_ok(ff_dataset_open(&a, folder, FF_VERIFY_FIRST, error));
    assert_ok(ff_dataset_open(&b, folder, FF_VERIFY_FIRST, error));
    assert_ok(agree(a, b, FF_FIT_WHOLE, error));
    ff_metadata *first = (ff_metadata *)ff_dataset_metadata(a);
    ff_metadata *second = (ff_metadata *)ff_dataset_metadata(b);
    REFUSED_WITH(a, b, second->channels, 3, "channels");
    REFUSED_WITH(a, b, second->width, 4, "--crop N");
    REFUSED_WITH(a, b, second->field[0].class_count, first->field[0].class_count - 1, "classes");
    char *const name = (char *)"another";
    REFUSED_WITH(a, b, second->field[0].class_name[1], name, "class 1");

    float *const owned[] = {first->mean, first->std, second->mean, second->std};
    const uint32_t counts[] = {first->statistics_count, second->statistics_count};
    float mean[2][2] = {{0.5f, 0.25f}, {0.5f, 0.25f}}, std[2][2] = {{1, 2}, {1, 2}};
    first->mean = mean[0], first->std = std[0], first->statistics_count = 2;
    second->mean = mean[1], second->std = std[1], second->statistics_count = 2;
    REFUSED_WITH(a, b, mean[1][1], 0.75f, "a mean of");
    REFUSED_WITH(a, b, std[1][1], 3.0f, "a std of");
    REFUSED_WITH(a, b, second->statistics_count, 0, "is normalized");
    first->mean = owned[0], first->std = owned[1], first->statistics_count = counts[0];
    second->mean = owned[2], second->std = owned[3], second->statistics_count = counts[1];

    char *lines[2][1] = {{(char *)"invert"}, {(char *)"invert"}};
    char **const transforms[] = {first->transform, second->transform};
    const size_t lengths[] = {first->transform_count, second->transform_count};
    first->transform = lines[0], first->transform_count = 1;
    second->transform = lines[1], second->transform_count = 1;
    char *const grey = (char *)"grey";
    REFUSED_WITH(a, b, lines[1][0], grey, "transform 1");
    REFUSED_WITH(a, b, second->transform_count, 0, "missing");
    first->transform = transforms[0], first->transform_count = lengths[0];
    second->transform = transforms[1], second->transform_count = lengths[1];
    ff_dataset_close(&a);
    ff_dataset_close(&b);
    remove_folder(folder);
}

static void precisions_have_names(void **state) {
    (void)state;
    for (int i = 0; i < FF_PRECISION_COUNT; i++) {
        ff_precision precision = FF_PRECISION_COUNT;
        assert_true(ff_precision_parse(ff_precision_name((ff_precision)i), &precision));
        assert_int_equal(precision, i);
    }
    ff_precision precision;
    assert_false(ff_precision_parse("f", &precision));
    assert_false(ff_precision_parse("f16x", &precision));
    assert_false(ff_precision_parse("", &precision));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_refused),
        cmocka_unit_test(precisions_have_names),
    };
    return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
