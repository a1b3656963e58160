/* Reading ahead: if memory cannot keep a set, the loader reads the bytes of samples before its
 * threads need them, many samples at a time. Private to loader/.
 *
 * The sequence of batches is known in advance. A planner thread walks along the sequence and cuts
 * its rows into STAGES (stage.h). A stage has enough rows to keep the disk busy: some dozens of
 * rows in random order, some MiB in sequential order, a whole group of blocks in block order. The
 * planner sorts the samples of a stage by their place on the disk, joins neighbours to one request,
 * and submits the requests to an engine (engine.h). The engine keeps many requests at the disk at
 * the same time, and reads into an arena: a ring buffer whose size the settings set. A thread that
 * fills a row finds the stage by the row's serial number and the bytes by their place in the shard.
 * The thread waits for these bytes alone, and uses them in the arena, without a copy. The first row
 * that needs a compressed frame decompresses the frame into the stage. When all rows of a stage are
 * filled, the next stage takes its part of the arena. This one path serves every order, share, size
 * and start position.
 *
 * Nothing here fails. A sample that could not be located, placed or read is left out; the row's own
 * reader then reads the sample, and returns the error if there is one.
 *
 * The serial number of a row is the number of its batch in the sequence, times the rows of a batch,
 * plus its row in the batch. Threads ask for rows in increasing order; several threads may be a few
 * rows apart.
 *
 * Thread rule: a cursor belongs to one thread; create, destroy and restart are called while no
 * cursor is in use. */
#ifndef FF_LOADER_AHEAD_AHEAD_H
#define FF_LOADER_AHEAD_AHEAD_H

#include "loader/host/settings.h"

typedef struct ff_ahead ff_ahead;

/* Begins to read for settings->sequence, from batch `first` on. The settings must outlive it. */
FF_MUST_USE ff_status ff_ahead_create(ff_ahead **ahead, const ff_loader_settings *settings,
                                      uint64_t first, ff_error *error);
/* NULL is accepted. */
void ff_ahead_destroy(ff_ahead **ahead);

/* Forgets all that was read, and begins with another sequence. */
void ff_ahead_restart(ff_ahead *ahead, const ff_sequence *sequence);

/* The rows from `serial` on are no longer needed: ff_ahead_row fails for them. */
void ff_ahead_abandon(ff_ahead *ahead, uint64_t serial);

/* The share of the requests' time that the reading threads waited for a processor. */
double ff_ahead_queued(ff_ahead *ahead);

/* A thread's place. {.ahead = ...}. */
typedef struct ff_ahead_cursor {
    ff_ahead *ahead;
    struct ff_ahead_stage *stage; /* the last row's; NULL = none */
    uint64_t rows;                /* rows of this stage that the cursor has passed */
} ff_ahead_cursor;

/* Moves to a row, which ends the use of the row before it; waits until the row is planned. Exactly
 * one cursor visits each row, padding too. FF_INTERRUPTED if the row was abandoned. */
FF_MUST_USE ff_status ff_ahead_row(ff_ahead_cursor *cursor, uint64_t serial, ff_error *error);

/* Done with the last row. */
void ff_ahead_leave(ff_ahead_cursor *cursor);

/* A ff_reader_find; context: the cursor, at the row that needs the sample. */
ff_status ff_ahead_find(void *cursor, ff_reader *reader, const ff_entry *entry,
                        const uint8_t **slot, ff_error *error);

#endif
