#include "train/report/sheets.h"

#include "format/cli/say.h"
#include "format/disk/class_name.h"
#include "loader/draw/contact.h"
#include "loader/draw/picture.h"

#include <inttypes.h>
#include <stdlib.h>

enum { COLUMNS = 9, PICTURES = 36 };
/* The most pixels of a step's sheet, which has at least PICTURES pictures. */
#define MOST_PIXELS (UINT64_C(1) << 24)

/* The source of a sheet. */
typedef struct source {
    ff_metadata metadata; /* of the tensors; its pointers belong to the set */
    const ff_field *field;
    ff_picture_scale scale;
    uint8_t *rgb;
    const ff_slot *slot; /* inputs */
    uint64_t count;      /* number of inputs */
    bool numbered;
    const ff_tally *tally;
    ff_dataset *set;
    ff_reader *reader;
    void *tensor; /* a sample as stored */
} source;

static ff_status begin(source *from, ff_dataset *set, const char *label, ff_error *error) {
    size_t field;
    *from = (source){.metadata = *ff_dataset_metadata(set), .set = set};
    FF_TRY(ff_dataset_field(set, label, &field, error));
    from->field = &ff_dataset_metadata(set)->field[field];
    return FF_OK;
}

static ff_status draw(source *from, const char *title, uint64_t count, ff_contact contact,
                      ff_canvas *canvas, ff_error *error) {
    const ff_contact_section section = {title, count};
    FF_TRY(ff_alloc(&from->rgb, (uint64_t)contact.height * contact.width, 3, "a picture", error));
    contact.section = &section;
    contact.sections = 1;
    contact.columns = count < COLUMNS ? (unsigned)count : COLUMNS;
    contact.context = from;
    return ff_contact_draw(&contact, canvas, NULL, error);
}

/* ---- inputs ---- */

static const void *input_of(const source *from, uint64_t i) {
    return (const char *)from->slot->data + i * from->slot->row_bytes;
}

static int64_t label_of(const source *from, uint64_t i) {
    return ((const int32_t *)from->slot->label[0].values)[i];
}

/* The caption of a mixed row has both labels, the larger share first. */
static ff_status input_caption(void *context, size_t section, uint64_t i, unsigned how,
                               ff_buffer *text, ff_error *error) {
    const source *from = context;
    const float share = from->slot->mix ? from->slot->mix[i] : 1;
    (void)section;
    if (from->numbered)
        FF_TRY(ff_buffer_printf(text, error, "%" PRIu64 ": ", from->slot->source[i].sample[0]));
    if (share >= 1) return ff_class_name(text, from->field, label_of(from, i), how, error);
    const bool own = share >= 0.5f;
    FF_TRY(ff_class_name(text, from->field, label_of(from, own ? i : i ^ 1), how, error));
    FF_TRY(ff_buffer_printf(text, error, " %.0f%%, ", 100.0 * (double)(own ? share : 1 - share)));
    FF_TRY(ff_class_name(text, from->field, label_of(from, own ? i ^ 1 : i), how, error));
    return ff_buffer_printf(text, error, " %.0f%%", 100.0 * (double)(own ? 1 - share : share));
}

static ff_status input_picture(void *context, size_t section, uint64_t i,
                               ff_contact_picture *picture, ff_error *error) {
    const source *from = context;
    (void)section, (void)error;
    *picture = (ff_contact_picture){from->rgb, from->slot->height, from->slot->width};
    ff_picture_convert(&from->metadata, &from->scale, input_of(from, i), picture->height,
                       picture->width, from->rgb);
    return FF_OK;
}

static ff_status draw_inputs(source *from, const ff_trainer *trainer, uint64_t step,
                             ff_canvas *canvas, ff_error *error) {
    const ff_slot *slot = from->slot;
    ff_contact contact = {.parts = true,
                          .height = slot->height,
                          .width = slot->width,
                          .caption = input_caption,
                          .picture = input_picture};
    double minimum = 1e300, maximum = -1e300;
    char *title;
    from->metadata.dtype = slot->dtype;
    from->metadata.layout = slot->layout;
    for (uint64_t i = 0; i < from->count; i++)
        ff_picture_range(&from->metadata, input_of(from, i), slot->height, slot->width, &minimum,
                         &maximum);
    from->scale = ff_picture_choose_scale(&from->metadata, minimum, maximum);
    FF_TRY(ff_format(&title, error, "inputs of step %" PRIu64 "   %u x %u, augment %s", step + 1,
                     slot->height, slot->width, trainer->augment_text));
    const ff_status status = draw(from, title, from->count, contact, canvas, error);
    free(title);
    return status;
}

static ff_status draw_step(const ff_trainer *trainer, const ff_loader_options *options,
                           uint64_t step, bool numbered, ff_canvas *canvas, ff_error *error) {
    ff_loader *loader = NULL;
    ff_slot *slot;
    source from;
    ff_status status;
    *canvas = (ff_canvas){0};
    FF_TRY(begin(&from, trainer->splits.train, trainer->splits.label, error));
    FF_TRY_DONE(ff_loader_create(&loader, trainer->splits.train, options, error));
    FF_TRY_DONE(ff_loader_acquire(loader, &slot, error));
    const uint64_t fit = MOST_PIXELS / ((uint64_t)slot->height * slot->width);
    const uint64_t most = fit > PICTURES ? fit : PICTURES;
    from.slot = slot;
    from.count = slot->count < most ? slot->count : most;
    from.numbered = numbered;
    FF_TRY_DONE(draw_inputs(&from, trainer, step, canvas, error));
done:
    ff_loader_destroy(&loader);
    free(from.rgb);
    return status;
}

ff_status ff_sheet_inputs(const ff_trainer *trainer, ff_canvas *canvas, ff_error *error) {
    ff_loader_options options = ff_trainer_input(trainer, 0);
    const uint64_t batch = (uint64_t)trainer->batch, all = trainer->train_count;
    options.batch = batch < PICTURES ? batch : PICTURES;
    if (options.batch > all) options.batch = all;
    options.last_batch = FF_LAST_BATCH_KEEP;
    return draw_step(trainer, &options, 0, false, canvas, error);
}

ff_status ff_sheet_step(const ff_trainer *trainer, uint64_t step, ff_canvas *canvas,
                        ff_error *error) {
    const ff_loader_options options = ff_trainer_input(trainer, step);
    return draw_step(trainer, &options, step, true, canvas, error);
}

/* ---- the worst ---- */

static ff_status worst_caption(void *context, size_t section, uint64_t i, unsigned how,
                               ff_buffer *text, ff_error *error) {
    const source *from = context;
    const ff_mistake *sample = &from->tally->worst[i];
    (void)section;
    FF_TRY(ff_buffer_printf(text, error, "%" PRIu64 ": ", sample->sample));
    FF_TRY(ff_class_name(text, from->field, sample->label, how, error));
    if (sample->predicted != sample->label) {
        FF_TRY(ff_buffer_printf(text, error, " taken for "));
        FF_TRY(ff_class_name(text, from->field, sample->predicted, how, error));
    }
    return ff_buffer_printf(text, error, " %.0f%%", 100 * sample->probability);
}

static ff_status read_worst(source *from, uint64_t i, ff_view *view, ff_error *error) {
    FF_TRY(ff_reader_sample(from->reader, from->tally->worst[i].sample, view, error));
    return ff_view_copy(from->set, view, from->tensor, error);
}

static ff_status worst_picture(void *context, size_t section, uint64_t i,
                               ff_contact_picture *picture, ff_error *error) {
    source *from = context;
    ff_view view;
    (void)section;
    FF_TRY(read_worst(from, i, &view, error));
    ff_picture_convert(&from->metadata, &from->scale, from->tensor, view.height, view.width,
                       from->rgb);
    *picture = (ff_contact_picture){from->rgb, view.height, view.width};
    return FF_OK;
}

/* Finds the largest picture, and the values' range. */
static ff_status measure(source *from, ff_contact *contact, ff_error *error) {
    const ff_metadata *metadata = &from->metadata;
    double minimum = 1e300, maximum = -1e300;
    const uint64_t most = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    FF_TRY(ff_alloc_aligned(&from->tensor, most, 1, 0, "a sample", error));
    for (int i = 0; i < from->tally->worst_count; i++) {
        ff_view view;
        FF_TRY(read_worst(from, (uint64_t)i, &view, error));
        ff_picture_range(metadata, from->tensor, view.height, view.width, &minimum, &maximum);
        if (view.height > contact->height) contact->height = view.height;
        if (view.width > contact->width) contact->width = view.width;
    }
    from->scale = ff_picture_choose_scale(metadata, minimum, maximum);
    return FF_OK;
}

ff_status ff_sheet_worst(const ff_trainer *trainer, ff_canvas *canvas, ff_error *error) {
    const ff_tally *tally = trainer->tally;
    ff_contact contact = {.parts = true, .caption = worst_caption, .picture = worst_picture};
    char *title = NULL;
    source from;
    ff_status status;
    *canvas = (ff_canvas){0};
    FF_TRY(begin(&from, trainer->splits.val, trainer->splits.label, error));
    from.tally = tally;
    FF_TRY_DONE(ff_reader_open(&from.reader, from.set, error));
    FF_TRY_DONE(measure(&from, &contact, error));
    FF_TRY_DONE(ff_format(
        &title, error, "%s of the largest loss, of %s",
        ff_say_count((uint64_t)tally->worst_count, "sample", "samples").text,
        ff_say_count((uint64_t)tally->count, "evaluated sample", "evaluated samples").text));
    FF_TRY_DONE(draw(&from, title, (uint64_t)tally->worst_count, contact, canvas, error));
done:
    ff_reader_close(&from.reader);
    free(title);
    free(from.tensor);
    free(from.rgb);
    return status;
}
