/* SPDX-License-Identifier: MIT */
/*
 * What was live at the peaks of a recorded process. A peak is a moment before a free, when live
 * bytes had reached a new height: the snapshot then has what the program had then, to the last
 * block for the thread that frees, and for the others but for what they did while it was taken.
 *
 * A height is worth a snapshot when it is a 64th above the last one; while it is below the highest
 * so far, a 16th. When a quarter has been freed since, the rise is over: its last snapshot is a
 * peak. The next one begins when live bytes have risen by a third again, to an eighth of the
 * highest peak at least. Eight peaks are kept: of two with nearly the same mix of sizes the higher,
 * of those that differ the highest.
 *
 * Callers: record.c, thread.c, fork.c; the shim reads. Lock: PS_RANK_RECORD, held while a snapshot
 * is taken, about a microsecond for each thread; who finds it taken does without.
 */
#ifndef PS_RECORD_RECORD_PEAK_H
#define PS_RECORD_RECORD_PEAK_H

#include "pools/engine/record/record.h"

#define PS_RECORD_PEAKS 8
#define PS_RECORD_ENDED (-1) /* stands for all threads that have ended */

struct ps_record_entry {
    uint64_t live_count; /* > 0 */
    int32_t thread;      /* its number, or PS_RECORD_ENDED; entries of a thread stand together */
    uint32_t number;     /* of a size; ascending within a thread */
};

/* live_bytes == large_bytes + sum of live_count * ps_record_bytes_of(number) */
struct ps_record_peak {
    uint64_t live_bytes;
    uint64_t large_count;
    uint64_t large_bytes;
    size_t count;
    struct ps_record_entry *entries;
};

struct ps_record_totals {
    uint64_t made; /* requests of all sizes */
    uint64_t large_count;
    uint64_t large_bytes;
};

/* Memory for the snapshots. False when it is out. */
bool ps_record_peak_start(void);

/* Enters a tally; never taken off. */
void ps_record_peak_add(struct ps_tally *tally);

/* Somebody has made a block of this size for the first time, as far as he knows. */
void ps_record_peak_first(size_t number);

/* The tally's thread ends: what it counted is entered under the ended ones. */
void ps_record_peak_fold(struct ps_tally *tally);

/* The tally for blocks of threads that have ended; only its x_gone may be written to. */
extern PS_HIDDEN struct ps_tally *ps_record_ended;

/* Live bytes have been published and are `total` now; is_top: a free comes next. */
void ps_record_peak_look(uint64_t total, bool is_top);

/* Live bytes from which on a free should look. */
uint64_t ps_record_peak_threshold(void);

/* Adds to the live blocks above the classes; negative: takes off. */
void ps_record_peak_large(int64_t count, int64_t bytes);

/* ---- for the report, at the end; one thread at a time ---- */

/* Closes the last rise, and sorts: returns how many peaks there are, the highest first. The lock is
 * held until ps_record_peak_release. */
size_t ps_record_peak_finish(void);
const struct ps_record_peak *ps_record_peak_at(size_t index);
void ps_record_peak_release(void);

void ps_record_peak_totals(struct ps_record_totals *totals);

/* Requests of a size since the start. */
uint64_t ps_record_peak_requests(size_t number);

/* In the child of a fork, by its only thread: it has the blocks of all, but peaks of its own. */
void ps_record_fork_child(void);

#endif
