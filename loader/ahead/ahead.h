/* Reading ahead: where memory cannot keep a set, the bytes of its samples are read before a thread
 * of the loader needs them, many at a time. Private to loader/.
 *
 * The sequence of a loader's batches is known before it begins, so a planner walks along it. It
 * cuts the rows into STAGES (stage.h), each of so many rows that the disk is busy: of random order
 * some dozens, of sequential order some MiB, of block order a whole group of blocks, whose parts
 * lie side by side. The samples of a stage are sorted by their place on the disk, neighbours become
 * one request, and the requests go to an engine (engine.h), which has many at the disk at the same
 * time. Their bytes come to lie in an arena, a ring in memory that the settings bound. A thread
 * that fills a row finds the stage by the row's serial number and the bytes by their place in the
 * shard, waits for their request alone, and uses them where they lie. A compressed frame is
 * decompressed by the first row that needs it, into the stage. Once all rows of a stage are filled,
 * its part of the arena belongs to the next one. So every order, share, size and start takes one
 * path.
 *
 * Nothing here fails: what could not be located, found no room, or could not be read is not there,
 * and the row's reader reads it for itself, and returns the error if there is one.
 *
 * A row's serial number is that of its batch in the sequence times the rows of a batch, plus its
 * row. Rows are asked for in increasing order, but for what several threads do at the same time.
 *
 * Thread rule: a cursor belongs to one thread; create, destroy and restart are called while no
 * cursor is in use. */
#ifndef FF_LOADER_AHEAD_AHEAD_H
#define FF_LOADER_AHEAD_AHEAD_H

#include "loader/settings.h"

typedef struct ff_ahead ff_ahead;

/* Begins to read for settings->sequence. The settings must outlive it. */
FF_MUST_USE ff_status ff_ahead_create(ff_ahead **ahead, const ff_loader_settings *settings,
                                      ff_error *error);
/* NULL is accepted. */
void ff_ahead_destroy(ff_ahead **ahead);

/* Forgets all that was read, and begins with another sequence. */
void ff_ahead_restart(ff_ahead *ahead, const ff_sequence *sequence);

/* The rows from `serial` on are no longer needed: ff_ahead_row fails for them. */
void ff_ahead_abandon(ff_ahead *ahead, uint64_t serial);

/* Where a thread is. {.ahead = ...}. */
typedef struct ff_ahead_cursor {
    ff_ahead *ahead;
    struct ff_ahead_stage *stage; /* of the last row; NULL = none */
    uint64_t rows;                /* of that stage that this cursor has passed */
} ff_ahead_cursor;

/* Goes to a row, and is done with the one before it; waits until it is planned. Every row, padding
 * too, is visited by one cursor, once. FF_INTERRUPTED where it was abandoned. */
FF_MUST_USE ff_status ff_ahead_row(ff_ahead_cursor *cursor, uint64_t serial, ff_error *error);

/* Done with the last row. */
void ff_ahead_leave(ff_ahead_cursor *cursor);

/* A ff_reader_find; context: the cursor, at the row that needs the sample. */
ff_status ff_ahead_find(void *cursor, ff_reader *reader, const ff_entry *entry,
                        const uint8_t **slot, ff_error *error);

#endif
