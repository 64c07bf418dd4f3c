/* SPDX-License-Identifier: MIT */
/*
 * See mapping.h. Lock: mapping_lock, protects the cache and the counts.
 */
#include "pools/engine/heap/mapping.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define CACHE_ENTRIES 64
#define BACK_OFF_LIMIT 16                     /* one of at most 2^16 moves is tried */
#define GROWN_LEAST_BYTES ((size_t)256 << 10) /* shorter copies cost no more than a mapping */
#define STEP_GRANULES 64                      /* unmapped per call because of their age */
#define FIT_FRACTION 4 /* a cached mapping may exceed the request by a quarter */

struct cached {
    struct ps_run *run;
    uint64_t since_ms;
};

static PS_SPARSE struct cached cache[CACHE_ENTRIES];
static size_t cache_count;
struct ps_mapping_counts ps_mapping_x_counts;
PS_SPARSE PS_UNDO_LOG(mapping_undo, (sizeof cache + sizeof ps_mapping_x_counts) / 8 + 3);
static struct ps_lock mapping_lock = PS_LOCK_INIT_UNDO(PS_RANK_MAPPING, &mapping_undo);
static bool has_guards; /* mappings end with an inaccessible page */
static bool keeps_none; /* nothing is cached, whatever the maximum; constant */
size_t ps_mapping_x_cache_max_bytes;
static uint64_t x_oldest_ms = UINT64_MAX; /* since_ms of the oldest entry; a hint for expire */

static size_t x_grown_min_bytes = GROWN_LEAST_BYTES; /* see ps_mapping_grown_min_bytes, */
static uint64_t x_grown_ms;      /* and when that was last set: valid for the purge delay */
static uint32_t x_is_stuck;      /* see ps_mapping_is_stuck */
static uint32_t x_moves_refused; /* in succession */
static uint32_t x_moves_wanted;  /* since one was refused */

static size_t bytes_of(const struct ps_run *run) {
    return (size_t)run->granules << PS_GRANULE_SHIFT;
}

void ps_mapping_start(const struct ps_config *config) {
    has_guards = config->harden >= PS_HARDEN_CHECK_BLOCKS;
    keeps_none = config->harden != 0;
    ps_mapping_x_cache_max_bytes = keeps_none ? 0 : config->cache_max_bytes;
}

bool ps_mapping_set_cache_max(size_t bytes) {
    if (!keeps_none) {
        ps_store_relaxed(&ps_mapping_x_cache_max_bytes, bytes); /* relaxed: as from outside */
    }
    return !keeps_none;
}

/* Notes everything that a section may change; sections are rare, and each handles megabytes. */
static void note_all(void) {
    ps_undo_note(&mapping_undo, cache, cache_count * sizeof cache[0]);
    PS_UNDO_NOTE(&mapping_undo, cache_count);
    PS_UNDO_NOTE(&mapping_undo, x_oldest_ms); /* otherwise a restored entry would never expire */
    ps_undo_note(&mapping_undo, &ps_mapping_x_counts, sizeof ps_mapping_x_counts);
}

static void count_live_locked(int64_t blocks, int64_t bytes) {
    ps_mapping_x_counts.live_count += (uint64_t)blocks;
    ps_mapping_x_counts.live_bytes += (uint64_t)bytes;
}

void ps_mapping_count_live(int64_t blocks, int64_t bytes) {
    ps_lock_acquire(&mapping_lock);
    ps_undo_note(&mapping_undo, &ps_mapping_x_counts, sizeof ps_mapping_x_counts);
    count_live_locked(blocks, bytes);
    ps_lock_release(&mapping_lock);
}

/* Removes entry i, preserving the order by age. */
static struct ps_run *remove_locked(size_t i) {
    struct ps_run *run = cache[i].run;
    cache_count--;
    for (; i < cache_count; i++) {
        cache[i] = cache[i + 1];
    }
    ps_mapping_x_counts.cached_count = cache_count;
    ps_mapping_x_counts.cached_bytes -= bytes_of(run);
    /* relaxed: a hint; expire decides under the lock. */
    ps_store_relaxed(&x_oldest_ms, cache_count > 0 ? cache[0].since_ms : UINT64_MAX);
    return run;
}

struct ps_run *ps_mapping_take_kept(size_t bytes, size_t align) {
    bytes = ps_round_up(bytes, PS_GRANULE_BYTES);
    struct ps_run *best = NULL;
    size_t best_index = 0;
    ps_lock_acquire(&mapping_lock);
    for (size_t i = 0; i < cache_count; i++) {
        struct ps_run *run = cache[i].run;
        size_t length = bytes_of(run);
        if (length >= bytes && length - bytes <= bytes / FIT_FRACTION &&
            ((uintptr_t)run->base & (align - 1)) == 0 &&
            (best == NULL || length < bytes_of(best))) {
            best = run;
            best_index = i;
        }
    }
    if (best != NULL) {
        note_all();
        remove_locked(best_index);
        count_live_locked(1, (int64_t)bytes_of(best));
    }
    ps_lock_release(&mapping_lock);
    return best;
}

/* The clock may have been read before another thread added the mapping, which is not due then. */
static bool is_due(uint64_t since_ms, uint64_t now_ms) {
    return now_ms >= since_ms && now_ms - since_ms >= ps_retention_delay_ms();
}

size_t ps_mapping_grown_min_bytes(void) {
    if (ps_hugetlb_page_bytes != 0) {
        return SIZE_MAX; /* no growth would move their pages */
    }
    /* relaxed, both: affects cost only. */
    return is_due(ps_load_relaxed(&x_grown_ms), ps_os_now_ms())
               ? GROWN_LEAST_BYTES
               : ps_load_relaxed(&x_grown_min_bytes);
}

bool ps_mapping_is_stuck(void) {
    return ps_load_relaxed(&x_is_stuck) != 0; /* relaxed: affects the order of attempts only */
}

/* Returns a mapping, or a part of one, to the OS. */
static void release_range(char *base, size_t bytes) {
    bool is_stuck = !ps_os_release(base, bytes);
    ps_store_relaxed(&x_is_stuck, (uint32_t)is_stuck); /* relaxed: see ps_mapping_is_stuck */
    if (!is_stuck) {
        ps_purge_count(bytes);
    } else if (!has_guards || ps_os_protect(base, bytes, true)) { /* its end is a guard page */
        ps_page_cache_keep(base, bytes >> PS_GRANULE_SHIFT);
    } else {
        (void)ps_os_purge(base, bytes); /* the addresses are lost */
    }
}

/* Returns whole pages of a mapping in hugetlb.h. If the system refuses to unmap them, the addresses
 * are lost. */
static void release_hugetlb(char *base, size_t bytes) {
    if (bytes != 0 && (ps_os_release(base, bytes) || ps_os_close(base, bytes))) {
        ps_hugetlb_note_returned(bytes);
        ps_purge_count(bytes);
    }
}

static void release(struct ps_run *run) {
    /* relaxed: free() only classifies by it. After the unmapping another thread may receive the
     * same addresses, so the slot must be cleared before. */
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE);
    (ps_hugetlb_has(run) ? release_hugetlb : release_range)(run->base, bytes_of(run));
}

static struct ps_run *adopt(char *base, size_t bytes) {
    if (base == NULL) {
        return NULL;
    }
    struct ps_run *run = ps_page_cache_adopt(base, bytes >> PS_GRANULE_SHIFT);
    if (run == NULL) {
        ps_os_release(base, bytes);
    }
    return run;
}

static struct ps_run *map_fresh(size_t bytes, size_t align) {
    struct ps_run *run = adopt(ps_os_reserve(bytes, ps_max(align, PS_GRANULE_BYTES)), bytes);
    if (run != NULL) {
        ps_huge_advise_mapping(run->base, bytes);
    }
    return run;
}

/* Addresses to which pages are moved, with their access and advice. Inaccessible until then, so
 * that the system does not count them as data (RLIMIT_DATA): the limit may be below two lengths. */
static struct ps_run *map_target(size_t bytes) {
    return adopt(ps_os_reserve_closed(bytes, PS_GRANULE_BYTES), bytes);
}

/* In huge pages that the system has set aside. */
static struct ps_run *map_hugetlb(size_t bytes) {
    size_t length = 0;
    char *base = ps_hugetlb_map(bytes, &length);
    struct ps_run *run = adopt(base, length);
    if (run != NULL) {
        run->is_huge = true;
    } else if (base != NULL) {
        ps_hugetlb_note_returned(length);
    }
    return run;
}

struct ps_run *ps_mapping_take(size_t bytes, size_t align) {
    bytes = ps_round_up(bytes, PS_GRANULE_BYTES);
    struct ps_run *run = ps_mapping_take_kept(bytes, align);
    if (run != NULL) {
        return run;
    }
    run = ps_hugetlb_page_bytes >= align ? map_hugetlb(bytes) : NULL;
    if (run != NULL) {
        ps_mapping_count_live(1, (int64_t)bytes_of(run));
        return run;
    }
    run = map_fresh(bytes, align);
    if (run == NULL && ps_mapping_expire(UINT64_MAX) != 0) {
        run = map_fresh(bytes, align); /* an address-space limit also counts cached mappings */
    }
    if (run != NULL) {
        ps_mapping_count_live(1, (int64_t)bytes);
    }
    return run;
}

void ps_mapping_give(struct ps_run *run) {
    size_t bytes = bytes_of(run);
    uint64_t now_ms = ps_os_now_ms();
    struct ps_run *evicted[CACHE_ENTRIES];
    size_t evicted_count = 0;
    run->is_dirty = true;
    ps_lock_acquire(&mapping_lock);
    note_all();
    count_live_locked(-1, -(int64_t)bytes);
    /* relaxed: written by another process only */
    size_t cache_max_bytes = ps_load_relaxed(&ps_mapping_x_cache_max_bytes);
    if (bytes <= cache_max_bytes && ps_retention_delay_ms() != 0) {
        while (cache_count == CACHE_ENTRIES ||
               ps_mapping_x_counts.cached_bytes + bytes > cache_max_bytes) {
            evicted[evicted_count++] = remove_locked(0);
        }
        cache[cache_count++] = (struct cached){.run = run, .since_ms = now_ms};
        ps_mapping_x_counts.cached_count = cache_count;
        ps_mapping_x_counts.cached_bytes += bytes;
        size_t least = is_due(x_grown_ms, now_ms) ? GROWN_LEAST_BYTES : x_grown_min_bytes;
        /* relaxed, both: see ps_mapping_grown_min_bytes. */
        ps_store_relaxed(&x_grown_min_bytes, ps_max(least, bytes + 1));
        ps_store_relaxed(&x_grown_ms, now_ms);
        ps_store_relaxed(&x_oldest_ms, cache[0].since_ms); /* relaxed: as in remove_locked */
        run = NULL;
    }
    ps_lock_release(&mapping_lock);
    for (size_t i = 0; i < evicted_count; i++) {
        release(evicted[i]);
    }
    if (run != NULL) {
        release(run);
    }
}

/* A refused move may cost the addresses of its target (ps_os_move), so after k refusals in
 * succession one in 2^k is tried; the others are copies. relaxed: the exact number does not
 * matter. */
static bool is_move_worth_it(void) {
    uint32_t refused = ps_load_relaxed(&x_moves_refused); /* relaxed: see above */
    uint32_t mask = ((uint32_t)1 << ps_min(refused, BACK_OFF_LIMIT)) - 1;
    /* relaxed: see above. */
    return refused == 0 || (ps_add_relaxed(&x_moves_wanted, 1u) & mask) == mask;
}

/* Moves the pages to a new mapping of the wanted length. */
static struct ps_run *move(struct ps_run *run, size_t bytes) {
    struct ps_run *target = is_move_worth_it() ? map_target(bytes) : NULL;
    if (target == NULL) {
        return NULL;
    }
    size_t old_bytes = bytes_of(run);
    uint8_t kind = run->kind;
    /* relaxed: the old addresses may belong to another thread as soon as they are unmapped. */
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_NONE);
    if (!ps_os_move(run->base, old_bytes, target->base, bytes)) {
        ps_store_relaxed(&run->kind, kind);                    /* relaxed: still ours, unchanged */
        ps_store_relaxed(&target->kind, (uint8_t)PS_RUN_NONE); /* relaxed: see ps_os_move */
        ps_add_relaxed(&x_moves_refused, 1u);                  /* relaxed: see is_move_worth_it */
        return NULL;
    }
    ps_store_relaxed(&x_moves_refused, 0u); /* relaxed: see is_move_worth_it */
    return target;
}

struct ps_run *ps_mapping_resize(struct ps_run *run, size_t bytes) {
    bool is_hugetlb = ps_hugetlb_has(run);
    bytes = ps_round_up(bytes, is_hugetlb ? ps_hugetlb_page_bytes : PS_GRANULE_BYTES);
    size_t old_bytes = bytes_of(run);
    struct ps_run *result = run;
    if (is_hugetlb && bytes > old_bytes) {
        return NULL; /* the system lengthens no such mapping */
    }
    if (is_hugetlb) {
        run->granules = (uint32_t)(bytes >> PS_GRANULE_SHIFT);
        release_hugetlb(run->base + bytes, old_bytes - bytes);
    } else if (bytes != old_bytes) {
        /* In place, even if the page map lacks a leaf for the new end: the head's slot alone
         * describes the block. */
        if (ps_os_resize(run->base, old_bytes, bytes)) {
            run->granules = (uint32_t)(bytes >> PS_GRANULE_SHIFT);
        } else {
            result = bytes > old_bytes ? move(run, bytes) : NULL;
        }
    }
    if (result != NULL) {
        ps_mapping_count_live(0, (int64_t)bytes - (int64_t)old_bytes);
    }
    return result;
}

/* Cuts the end off the oldest mapping, and leaves the rest cached, or removes it. */
static struct ps_run *cut_locked(bool is_all, size_t granules) {
    struct ps_run *run = cache[0].run;
    if (is_all || run->granules <= granules || ps_hugetlb_has(run)) {
        return remove_locked(0);
    }
    PS_UNDO_NOTE(&mapping_undo, run->granules);
    run->granules -= (uint32_t)granules;
    ps_mapping_x_counts.cached_bytes -= granules << PS_GRANULE_SHIFT;
    return NULL;
}

/* Unmaps one step of the due mappings, or all of the oldest one. Returns the unmapped bytes; 0:
 * none is due. */
static size_t expire_step(uint64_t now_ms, bool is_all) {
    struct ps_run *whole = NULL;
    char *tail = NULL;
    size_t granules = ps_retention_step(STEP_GRANULES);
    ps_lock_acquire(&mapping_lock);
    if (cache_count > 0 && (now_ms == UINT64_MAX || is_due(cache[0].since_ms, now_ms))) {
        note_all();
        struct ps_run *oldest = cache[0].run;
        whole = cut_locked(is_all, granules);
        tail = oldest->base + bytes_of(oldest);
    }
    ps_lock_release(&mapping_lock);
    if (whole != NULL) {
        size_t bytes = bytes_of(whole);
        release(whole);
        return bytes;
    }
    if (tail != NULL) {
        release_range(tail, granules << PS_GRANULE_SHIFT);
        return granules << PS_GRANULE_SHIFT;
    }
    return 0;
}

size_t ps_mapping_expire(uint64_t now_ms) {
    size_t bytes = 0;
    size_t step;
    /* relaxed: a hint, decided under the lock. */
    uint64_t oldest_ms = ps_load_relaxed(&x_oldest_ms);
    if (oldest_ms == UINT64_MAX || !is_due(oldest_ms, now_ms)) {
        return 0;
    }
    do { /* ends: each step leaves fewer bytes */
        step = expire_step(now_ms, now_ms == UINT64_MAX);
        bytes += step;
    } while (step != 0 && now_ms == UINT64_MAX);
    return bytes;
}

size_t ps_mapping_expire_some(void) { return expire_step(UINT64_MAX, false); }

void ps_mapping_read(struct ps_mapping_counts *out) {
    ps_lock_acquire(&mapping_lock);
    *out = ps_mapping_x_counts;
    ps_lock_release(&mapping_lock);
}

void ps_mapping_fork_child(void) { ps_lock_fork_child(&mapping_lock); }
