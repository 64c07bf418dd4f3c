/* SPDX-License-Identifier: MIT */
/*
 * See record_peak.h. Lock: record_lock, protects the snapshots and the static variables without x_.
 * It is innermost.
 */
#include "pools/engine/record/record_peak.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_map.h"

#include <string.h>

#define SLOTS (PS_RECORD_PEAKS + 2) /* the peaks, the current rise's, and one to write to */
#define SLOT_BYTES (PS_RECORD_SIZES * sizeof(struct ps_record_entry))
#define WORDS ((PS_RECORD_SIZES + 63) / 64)

#define COLLECTS_MAX 8 /* attempts to read a size for a snapshot */
#define MOVES_SHARE 64 /* share of its live blocks that may have moved meanwhile */

#define STEP_SHARE 64       /* share of live bytes that is worth a snapshot at a new height */
#define STEP_SHARE_BELOW 16 /* below the highest peak */
#define STEP_LEAST 8192
#define RISE_LEAST ((uint64_t)64 << 10)
#define WORTH_SHARE 8    /* share of the highest peak: lower peaks are ignored */
#define SIMILAR_SHARE 16 /* mixes are equal if a smaller share of bytes differs */
#define UNIT 65536       /* a whole mix */

static struct ps_lock record_lock = PS_LOCK_INIT(PS_RANK_RECORD);
static PS_SPARSE uint64_t x_used[WORDS]; /* sizes that were requested at least once */
static uint64_t x_large_count;
static uint64_t x_large_bytes;
static uint64_t x_threshold; /* live bytes from which on a free takes a snapshot */
static uint64_t x_floor;     /* live bytes below which the rise has ended, or the fall continues */

static PS_SPARSE struct ps_record_peak slots[SLOTS];
static uint8_t order[SLOTS]; /* permutation of slots: [0..kept_count) peaks, then RISING and
                                SPARE */
static size_t kept_count;
static bool has_rising;  /* slot RISING has the current rise; else live bytes fall */
static uint64_t highest; /* highest published live bytes of all snapshots */
static PS_SPARSE int64_t mix[PS_RECORD_SIZES]; /* scratch, used while two mixes are compared */

#define RISING PS_RECORD_PEAKS
#define SPARE (PS_RECORD_PEAKS + 1)

static struct ps_record_peak *slot_at(size_t index) { return &slots[order[index]]; }

static void swap_slots(size_t a, size_t b) {
    uint8_t swapped = order[a];
    order[a] = order[b];
    order[b] = swapped;
}

bool ps_record_peak_start(void) {
    size_t bytes = ps_round_up(SLOTS * SLOT_BYTES, PS_GRANULE_BYTES);
    char *memory = ps_metadata_map(bytes);
    if (memory == NULL) {
        return false;
    }
    ps_huge_refuse(memory, bytes);
    for (size_t i = 0; i < SLOTS; i++) {
        slots[i].entries = (struct ps_record_entry *)(memory + i * SLOT_BYTES);
        order[i] = (uint8_t)i;
    }
    return true;
}

void ps_record_peak_first(size_t number) {
    /* relaxed: a concurrent snapshot may miss the block. */
    ps_or_relaxed(&x_used[number / 64], (uint64_t)1 << number % 64);
}

void ps_record_peak_large(int64_t count, int64_t bytes) {
    /* relaxed, both: counts. */
    ps_add_relaxed(&x_large_count, (uint64_t)count);
    ps_add_relaxed(&x_large_bytes, (uint64_t)bytes);
}

uint64_t ps_record_peak_threshold(void) { return ps_load_relaxed(&x_threshold); } /* a hint */

/* ---- reading the tallies ---- */

/* The first size in use from `number` on, or PS_RECORD_SIZES. */
static size_t next_used(size_t number) {
    while (number < PS_RECORD_SIZES) {
        /* relaxed: see ps_record_peak_first. */
        uint64_t word = ps_load_relaxed(&x_used[number / 64]) >> number % 64;
        if (word != 0) {
            return number + (size_t)__builtin_ctzll(word);
        }
        number = (number / 64 + 1) * 64;
    }
    return PS_RECORD_SIZES;
}

#define FOR_USED(number)                                                                           \
    for (size_t number = next_used(0); number < PS_RECORD_SIZES; number = next_used(number + 1))

/* Reads one size, over all shards. Returns its live blocks; *moves: its allocations and frees. */
static uint64_t collect(size_t number, uint64_t *moves) {
    int64_t live = 0;
    *moves = 0;
    for (size_t i = 0; i < PS_RECORD_SHARDS; i++) {
        const struct ps_record_count *count = &ps_record_shards[i].sizes[number];
        /* relaxed, both: running counts. `made` is read last, so that no free is counted without
         * its allocation, where both are of one shard. */
        uint64_t freed = ps_load_relaxed(&count->x_freed);
        uint64_t made = ps_load_relaxed(&count->x_made);
        live += (int64_t)(made - freed);
        *moves += made + freed;
    }
    return live > 0 ? (uint64_t)live : 0;
}

/*
 * Reads one size. A block that one thread makes and another frees while the shards are read can be
 * seen by one half, and if this thread is descheduled in between, each shard can be seen at a time
 * when most blocks counted there. So a size is read twice, and again while many of its blocks moved
 * in between (a double collect: Afek and others, "Atomic snapshots of shared memory", 1993).
 * Between sizes a delay does no harm.
 */
static void take_number(struct ps_record_peak *peak, size_t number) {
    uint64_t moves;
    uint64_t live = collect(number, &moves);
    for (int i = 1; i < COLLECTS_MAX; i++) {
        uint64_t before = moves;
        live = collect(number, &moves);
        if (moves - before <= live / MOVES_SHARE) {
            break;
        }
    }
    if (live != 0) {
        peak->entries[peak->count++] = (struct ps_record_entry){live, number};
        peak->live_bytes += live * ps_record_bytes_of(number);
    }
}

static void take_locked(struct ps_record_peak *peak) {
    peak->count = 0;
    /* relaxed, both: counts. */
    peak->large_count = ps_load_relaxed(&x_large_count);
    peak->large_bytes = ps_load_relaxed(&x_large_bytes);
    peak->live_bytes = peak->large_bytes;
    FOR_USED(number) { take_number(peak, number); }
}

/* ---- selection of peaks ---- */

static void add_mix(const struct ps_record_peak *peak, int64_t sign) {
    uint64_t bytes = peak->live_bytes - peak->large_bytes;
    for (size_t i = 0; i < peak->count; i++) {
        const struct ps_record_entry *entry = &peak->entries[i];
        double part = (double)entry->live_count * (double)ps_record_bytes_of(entry->number);
        mix[entry->number] += sign * (int64_t)(part * UNIT / (double)ps_max(bytes, 1));
    }
}

static bool is_similar(const struct ps_record_peak *a, const struct ps_record_peak *b) {
    add_mix(a, 1);
    add_mix(b, -1);
    int64_t elsewhere = 0;
    FOR_USED(number) {
        elsewhere += mix[number] < 0 ? -mix[number] : mix[number];
        mix[number] = 0;
    }
    return elsewhere / 2 < UNIT / SIMILAR_SHARE;
}

/* The saved peak that the current rise's may replace: one with the same mix, or the lowest. */
static size_t find_rival(void) {
    size_t lowest = 0;
    for (size_t i = 0; i < kept_count; i++) {
        if (is_similar(slot_at(i), slot_at(RISING))) {
            return i;
        }
        lowest = slot_at(i)->live_bytes < slot_at(lowest)->live_bytes ? i : lowest;
    }
    return kept_count < PS_RECORD_PEAKS ? kept_count : lowest;
}

static void keep_locked(void) {
    size_t rival = find_rival();
    if (rival == kept_count || slot_at(rival)->live_bytes < slot_at(RISING)->live_bytes) {
        kept_count += rival == kept_count;
        swap_slots(rival, RISING);
    }
    has_rising = false;
}

/* ---- thresholds ---- */

static uint64_t step_at(uint64_t total) {
    uint64_t share = total >= highest ? STEP_SHARE : STEP_SHARE_BELOW;
    return ps_max(total / share, STEP_LEAST);
}

static void set_limits(uint64_t threshold, uint64_t floor) {
    /* relaxed, both: hints, read again under the lock. */
    ps_store_relaxed(&x_threshold, threshold);
    ps_store_relaxed(&x_floor, floor);
}

static void risen_locked(uint64_t total) {
    take_locked(slot_at(SPARE));
    if (!has_rising || slot_at(SPARE)->live_bytes > slot_at(RISING)->live_bytes) {
        swap_slots(SPARE, RISING);
    }
    has_rising = true;
    set_limits(total + step_at(total), total - total / 4);
    highest = ps_max(highest, total);
}

static void fallen_locked(uint64_t total) {
    if (has_rising) {
        keep_locked();
    }
    uint64_t next = total + ps_max(total / 3, RISE_LEAST);
    set_limits(ps_max(next, highest / WORTH_SHARE), total - total / 16);
}

/* Clamps to 0: frees may be published before the allocations they belong to. */
static uint64_t known(uint64_t total) { return (int64_t)total < 0 ? 0 : total; }

void ps_record_peak_check(uint64_t total, bool is_top) {
    total = known(total);
    /* relaxed, both: hints. */
    bool has_risen = is_top && total >= ps_load_relaxed(&x_threshold);
    if (PS_LIKELY(!has_risen && total >= ps_load_relaxed(&x_floor))) {
        return;
    }
    if (!ps_lock_try(&record_lock)) {
        return;
    }
    /* relaxed, both: under the lock. */
    if (is_top && total >= ps_load_relaxed(&x_threshold)) {
        risen_locked(total);
    } else if (total < ps_load_relaxed(&x_floor)) {
        fallen_locked(total);
    }
    ps_lock_release(&record_lock);
}

/* ---- the report ---- */

size_t ps_record_peak_finish(void) {
    ps_lock_acquire(&record_lock);
    take_locked(slot_at(SPARE));
    bool is_higher = has_rising ? slot_at(SPARE)->live_bytes > slot_at(RISING)->live_bytes
                                : kept_count == 0 || slot_at(SPARE)->live_bytes >=
                                                         ps_load_relaxed(&x_threshold); /* lock */
    if (is_higher) {
        swap_slots(SPARE, RISING);
        has_rising = true;
    }
    if (has_rising) {
        keep_locked();
    }
    for (size_t i = 1; i < kept_count; i++) {
        for (size_t j = i; j > 0 && slot_at(j)->live_bytes > slot_at(j - 1)->live_bytes; j--) {
            swap_slots(j, j - 1);
        }
    }
    return kept_count;
}

const struct ps_record_peak *ps_record_peak_at(size_t index) { return slot_at(index); }

void ps_record_peak_release(void) { ps_lock_release(&record_lock); }

uint64_t ps_record_peak_requests(size_t number) {
    uint64_t made = 0;
    for (size_t i = 0; i < PS_RECORD_SHARDS; i++) {
        made += ps_load_relaxed(&ps_record_shards[i].sizes[number].x_made); /* relaxed: a count */
    }
    return made;
}

void ps_record_peak_totals(struct ps_record_totals *totals) {
    *totals = (struct ps_record_totals){0};
    for (size_t i = 0; i < PS_RECORD_SHARDS; i++) {
        /* relaxed, both: counts. */
        totals->large_count += ps_load_relaxed(&ps_record_shards[i].x_large);
        totals->large_bytes += ps_load_relaxed(&ps_record_shards[i].x_large_bytes);
    }
    totals->made = totals->large_count;
    FOR_USED(number) { totals->made += ps_record_peak_requests(number); }
}

/* ---- fork ---- */

void ps_record_fork_child(void) {
    if (!ps_lock_fork_child(&record_lock)) {
        return;
    }
    kept_count = 0;
    has_rising = false;
    highest = 0;
    set_limits(0, 0);
    /* Another thread may have been swapping two slots, or comparing two mixes. */
    for (size_t i = 0; i < SLOTS; i++) {
        order[i] = (uint8_t)i;
    }
    FOR_USED(number) { mix[number] = 0; }
}
