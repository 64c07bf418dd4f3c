/* SPDX-License-Identifier: MIT */
/*
 * Snapshots at the peaks of a recorded process. A peak is a moment before a free at which live
 * bytes have reached a new height. The snapshot may differ by what other threads allocated and
 * freed while it was taken.
 *
 * A height is worth a snapshot when it is 1/64 above the last one, or 1/16 while it is below the
 * highest so far. When a quarter of it has been freed, the rise has ended: its last snapshot is a
 * peak. The next rise begins when live bytes have risen by a third again, to at least an eighth of
 * the highest peak. Eight peaks are saved: of two with nearly the same mix of sizes the higher one,
 * of different ones the highest.
 *
 * Callers: record.c, trace.c; the shim reads. Lock: PS_RANK_RECORD, for a snapshot, which takes
 * about a microsecond for each shard in use; a thread that finds it taken skips its snapshot.
 */
#ifndef PS_RECORD_RECORD_PEAK_H
#define PS_RECORD_RECORD_PEAK_H

#include "pools/engine/record/record.h"

#define PS_RECORD_PEAKS 8

struct ps_record_entry {
    uint64_t live_count; /* > 0 */
    uint64_t number;     /* of a size; ascending */
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

/* Reserves memory for the snapshots. Returns false when it is exhausted. */
bool ps_record_peak_start(void);

/* Marks a size as in use. Called at the first allocation of the size in a shard. */
void ps_record_peak_first(size_t number);

/* Takes a snapshot if one is due. Live bytes have been published and are `total` now; is_top: a
 * free follows. */
void ps_record_peak_check(uint64_t total, bool is_top);

/* Live bytes from which on a free should call ps_record_peak_check. */
uint64_t ps_record_peak_threshold(void);

/* Adds to the live blocks above the size classes, or subtracts if negative. */
void ps_record_peak_large(int64_t count, int64_t bytes);

/* ---- the report, at exit; one thread at a time ---- */

/* Ends the last rise. Returns the number of peaks, the highest first. The caller has the
 * lock until ps_record_peak_release. */
size_t ps_record_peak_finish(void);
const struct ps_record_peak *ps_record_peak_at(size_t index);
void ps_record_peak_release(void);

void ps_record_peak_totals(struct ps_record_totals *totals);

/* Requests of a size since the start. */
uint64_t ps_record_peak_requests(size_t number);

/* Called in the child of a fork, on its only thread. It still counts the live blocks of all
 * threads, and starts with no peaks. */
void ps_record_fork_child(void);

#endif
