/* SPDX-License-Identifier: MIT */
/*
 * Purging of pages that are free while their granule is not: their memory is dropped when the
 * granule has not changed between two scans, half a purge delay apart. (Whole granules return to
 * the page cache at once, where purge.h has the policy.) Pages are claimed during the system call,
 * which therefore runs without the lock. Locks: the depot's.
 */
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "pools/pages/pages.h"

#define BATCH 64

struct victim {
    struct ps_pages_granule *granule;
    uint16_t bits;  /* claimed */
    uint16_t dirty; /* still dirty after the purge */
};

/* Depot lock, except that x_next_ms is also read without. */
static PS_SPARSE struct victim victims[BATCH]; /* of the purging thread, or of a fork's child */
static size_t victim_count;
static bool is_decaying;
static uint8_t scan; /* number of the current scan, never 0 */
static uint64_t x_next_ms;

/* The pages of `bits` that form whole pages of the system. */
static uint32_t purgeable(uint32_t bits) {
    size_t group = ps_os_page_bytes() >> PS_PAGE_SHIFT;
    if (group <= 1) {
        return bits;
    }
    uint32_t whole = 0;
    for (size_t index = 0; index + group <= PS_GRANULE_PAGES; index += group) {
        uint32_t mask = ps_page_bits(index, group);
        whole |= (bits & mask) == mask ? mask : 0;
    }
    return whole;
}

static bool gather(struct ps_pages_granule *granule, void *is_forced) {
    uint32_t bits = purgeable(granule->x_dirty);
    if (bits == 0) {
        return true;
    }
    if (granule->seen_idle == 0 && !*(const bool *)is_forced) {
        granule->seen_idle = scan;
    } else if (granule->seen_idle != scan && ps_granule_claim_locked(granule, bits)) {
        victims[victim_count] = (struct victim){granule, (uint16_t)bits, 0};
        ps_depot_note(&victim_count, sizeof victim_count);
        victim_count++;
    }
    ps_depot_commit();
    return victim_count < BATCH;
}

static bool purge_one(struct victim *victim) {
    uint32_t left = victim->bits;
    bool has_purged = false;
    while (left != 0) { /* adjacent pages at a time */
        size_t first = (size_t)__builtin_ctz(left);
        size_t pages = (size_t)__builtin_ctz(~(left >> first));
        uint32_t bits = ps_page_bits(first, pages);
        const struct ps_run *run = &victim->granule->run;
        if (ps_hugetlb_purge(run, run->base + (first << PS_PAGE_SHIFT), pages << PS_PAGE_SHIFT)) {
            ps_purge_count(pages << PS_PAGE_SHIFT);
            has_purged = true;
        } else {
            victim->dirty |= (uint16_t)bits;
        }
        left &= ~bits;
    }
    return has_purged;
}

/* With the lock. */
static void return_victims(struct ps_released *released) {
    while (victim_count > 0) {
        const struct victim *victim = &victims[victim_count - 1];
        ps_depot_note(&victim_count, sizeof victim_count);
        victim_count--;
        ps_granule_return_locked(victim->granule, victim->bits, victim->dirty, released);
        victim->granule->seen_idle = scan; /* not twice in one scan */
        ps_depot_commit();
    }
}

/* Purges one batch. Returns false after the last: none is left, or the system refuses. */
static bool decay_batch(bool is_forced, bool *has_purged) {
    struct ps_released released = {NULL, NULL};
    ps_depot_lock();
    ps_granules_walk_locked(gather, &is_forced);
    ps_depot_unlock();
    bool is_full = victim_count == BATCH;
    bool is_refused = false;
    for (size_t i = 0; i < victim_count; i++) {
        *has_purged |= purge_one(&victims[i]);
        is_refused |= victims[i].dirty != 0;
    }
    ps_depot_lock();
    return_victims(&released);
    ps_depot_unlock();
    ps_granules_release(&released);
    return is_full && !is_refused;
}

static bool begin(uint64_t now_ms, bool is_forced) {
    ps_depot_lock();
    /* relaxed: written under the lock. */
    bool can_begin = !is_decaying && (is_forced || now_ms >= ps_load_relaxed(&x_next_ms));
    if (can_begin) {
        is_decaying = true;
        scan = scan == UINT8_MAX ? 1 : (uint8_t)(scan + 1);
        uint64_t pause_ms = ps_retention_interval_ms(ps_retention_usual_delay_ms() / 2);
        ps_store_relaxed(&x_next_ms, now_ms + pause_ms); /* relaxed: as above */
    }
    ps_depot_unlock();
    return can_begin;
}

bool ps_depot_decay(uint64_t now_ms, bool is_forced) {
    bool has_purged = false;
    /* relaxed: a hint, read again under the lock. */
    if ((!is_forced && now_ms < ps_load_relaxed(&x_next_ms)) || !begin(now_ms, is_forced)) {
        return false;
    }
    while (decay_batch(is_forced, &has_purged)) {
    }
    ps_depot_lock();
    is_decaying = false;
    ps_depot_unlock();
    return has_purged;
}

void ps_decay_salvage(void) {
    struct ps_released released = {NULL, NULL};
    ps_depot_lock();
    for (size_t i = 0; i < victim_count; i++) {
        victims[i].dirty = victims[i].bits; /* the progress of the parent is unknown */
    }
    return_victims(&released);
    is_decaying = false;
    ps_depot_unlock();
    ps_granules_release(&released);
}
