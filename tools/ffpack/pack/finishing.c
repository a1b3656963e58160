#include "tools/ffpack/pack/finishing.h"

#include "format/writer/pending.h"

/* Pending shards are completed, and found whole by another writer. */
static ff_status finish(ff_finishing *finishing, ff_error *error) {
    if (finishing->stand_in.length) {
        FF_TRY(ff_writer_end(finishing->writer, error));
        ff_writer_close(&finishing->writer);
        FF_TRY(ff_pending_complete(finishing->directory, &finishing->stand_in, finishing->metadata,
                                   false, error));
        FF_TRY(ff_writer_open(&finishing->writer, finishing->directory, finishing->metadata, NULL,
                              error));
    }
    return ff_writer_commit(finishing->writer, finishing->result, error);
}

static void finishing_main(void *context, int index) {
    (void)index;
    ff_finishing *finishing = context;
    finishing->error.status = finish(finishing, &finishing->error);
}

ff_status ff_finishing_start(ff_finishing *finishing, ff_error *error) {
    return ff_threads_start(&finishing->thread, 1, "finish", finishing_main, finishing, error);
}

ff_status ff_finishing_wait(ff_finishing *finishing, ff_error *error) {
    ff_threads_join(&finishing->thread);
    const ff_status status = finishing->error.status;
    if (status != FF_OK && error) *error = finishing->error;
    ff_writer_close(&finishing->writer);
    ff_buffer_free(&finishing->stand_in);
    *finishing = (ff_finishing){0};
    return status;
}
