/* SPDX-License-Identifier: MIT */
/*
 * See idle.h. Takes the registry lock, then the page lock, for the walks; system calls outside.
 */
#include "pools/engine/heap/idle.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/small/span_remote.h"

#define CLAIM_LIMIT 64 /* spans claimed in one walk */
#define LOOKS_PER_DELAY 4
#define BACK_OFF_LIMIT 2      /* walks in vain make the next one wait longer, up to a whole delay */
#define MISSED_LOOK_DELAYS 16 /* between looks for spans whose wake was missed */
#define MISSED_LOOK_MS_LEAST 16000 /* and at least: each may walk over all slices */

static uint32_t idle_delay_ms;
static uint64_t x_next_look_ms;
static uint64_t x_next_missed_look_ms;
static uint32_t x_walks_in_vain;

/* Spans [done, count) are claimed and have yet to be given back to their owners. Purge lock; the
 * child of a fork goes on where the parent was. */
static struct claims {
    uint64_t active_before_ms;
    struct ps_span *spans[CLAIM_LIMIT];
    size_t count;
    size_t done;
} claims;

struct search {
    uint64_t active_before_ms;
    bool is_for_missed;
    bool has_wakes;
    bool has_spans;
};

void ps_idle_start(uint32_t delay_ms) { idle_delay_ms = delay_ms; }

/* relaxed, all loads: a guess about somebody who does nothing; the claim itself is exact. */
static bool is_idle(const struct ps_heap *heap, uint64_t active_before_ms) {
    return ps_load_relaxed(&heap->x_active_ms) < active_before_ms;
}

static bool has_idle_owner(const struct ps_span *span, uint64_t active_before_ms) {
    uintptr_t key = ps_load_relaxed(&span->x_owner);
    return key > PS_KEY_ORPHAN && is_idle(ps_heap_of_key(key), active_before_ms);
}

static void claim_if_back(struct ps_slot *slot, void *context) {
    (void)context;
    struct ps_span *span = ps_span_of_slot(slot);
    /* acquire: pairs with ps_span_create; makes the constant fields of a span visible. */
    if (claims.count < CLAIM_LIMIT && ps_load_acquire(&slot->run.kind) == PS_RUN_SPAN &&
        has_idle_owner(span, claims.active_before_ms) && ps_span_claim(span)) {
        claims.spans[claims.count] = span;
        ps_fence_program_order(); /* for the child of a fork: the entry before the count */
        claims.count++;
    }
}

/* Ends the claims one by one, after their memory has been dropped, and tells the owners. */
static bool purge_claimed(void) {
    struct ps_span *to_wake[CLAIM_LIMIT];
    size_t wake_count = 0;
    bool has_purged = false;
    while (claims.done < claims.count) {
        struct ps_span *span = claims.spans[claims.done];
        size_t bytes = (size_t)span->run.slices << PS_SLICE_SHIFT;
        if (ps_os_purge(span->run.base, bytes)) {
            ps_purge_count(bytes);
            has_purged = true;
        }
        claims.done++;
        if (ps_span_unclaim(span)) {
            to_wake[wake_count++] = span;
        }
    }
    ps_purge_end();
    for (size_t i = 0; i < wake_count; i++) {
        ps_wake_owner(to_wake[i]);
    }
    return has_purged;
}

bool ps_idle_purge(uint64_t active_before_ms) {
    bool has_purged = false;
    bool is_full;
    do { /* ends: what has been claimed once has nothing to claim again */
        ps_purge_begin();
        claims.count = 0;
        ps_fence_program_order(); /* so that a child never finds old ones to end */
        claims.done = 0;
        claims.active_before_ms = active_before_ms;
        ps_page_cache_walk(claim_if_back, NULL);
        is_full = claims.count == CLAIM_LIMIT;
        has_purged |= purge_claimed();
    } while (is_full);
    return has_purged;
}

void ps_idle_fork_salvage(void) {
    if (claims.done < claims.count) {
        ps_purge_begin();
        (void)purge_claimed();
    }
}

static bool has_spans(const struct ps_heap *heap) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (ps_load_relaxed(&heap->x_spans[i]) != 0) { /* relaxed: as in is_idle */
            return true;
        }
    }
    return false;
}

static void search_heap(struct ps_heap *heap, void *context) {
    struct search *search = context;
    if (!is_idle(heap, search->active_before_ms)) {
        return;
    }
    /* relaxed: as in is_idle. */
    search->has_wakes |=
        ps_load_relaxed(&heap->x_wake) != NULL && ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE;
    /* No wake tells of a full span whose wake was missed (span_remote.h), and an owner whose thread
     * has ended, or sleeps, never looks: any idle owner may have one. */
    search->has_spans = search->has_spans || (search->is_for_missed && has_spans(heap));
}

static bool is_missed_look_due(uint64_t now_ms) {
    if (now_ms < ps_load_relaxed(&x_next_missed_look_ms)) { /* relaxed: as in ps_idle_look */
        return false;
    }
    uint64_t pause_ms = ps_max((uint64_t)idle_delay_ms * MISSED_LOOK_DELAYS, MISSED_LOOK_MS_LEAST);
    ps_store_relaxed(&x_next_missed_look_ms, now_ms + pause_ms);
    return true;
}

void ps_idle_look(uint64_t now_ms) {
    /* relaxed: a second thread that looks too does no harm. */
    if (now_ms < ps_load_relaxed(&x_next_look_ms) || now_ms < idle_delay_ms) {
        return;
    }
    uint32_t in_vain = ps_load_relaxed(&x_walks_in_vain); /* relaxed: as above */
    ps_store_relaxed(&x_next_look_ms,
                     now_ms + ((uint64_t)idle_delay_ms << in_vain) / LOOKS_PER_DELAY);
    struct search search = {.active_before_ms = now_ms - idle_delay_ms,
                            .is_for_missed = is_missed_look_due(now_ms)};
    ps_heap_walk(search_heap, &search);
    if (search.has_wakes || search.has_spans) {
        bool has_purged = ps_idle_purge(search.active_before_ms);
        in_vain = has_purged ? 0 : (uint32_t)ps_min(in_vain + search.has_wakes, BACK_OFF_LIMIT);
        ps_store_relaxed(&x_walks_in_vain, in_vain); /* relaxed: as above */
    }
}
