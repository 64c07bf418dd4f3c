/* SPDX-License-Identifier: MIT */
/*
 * See census.h. Reads words of other threads with relaxed loads: a snapshot, in which each number
 * was right at some moment during the call.
 */
#include "pools/engine/record/census.h"

#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/medium_cache.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_remote.h"

#include <string.h>

static void count_span(struct ps_census *census, const struct ps_span *span) {
    struct ps_census_class *class = &census->classes[span->class_index];
    size_t used = ps_load_relaxed(&span->used);             /* relaxed: see the file comment */
    size_t needed = ps_load_relaxed(&span->free_countdown); /* relaxed: as above */
    size_t armed = ps_load_relaxed(&span->countdown_start); /* relaxed: as above */
    size_t popped = ps_load_relaxed(&span->popped);         /* relaxed: as above */
    size_t out = used + needed + popped;
    size_t back = armed + ps_span_remote_blocks(span);
    class->spans++;
    class->span_bytes += (uint64_t)span->run.granules << PS_GRANULE_SHIFT;
    /* relaxed: as above. Its memory was purged because all blocks are back, and the owner has not
     * collected them yet: the returned blocks are no longer counted anywhere. */
    bool is_dropped =
        (ps_load_relaxed(&span->x_remote) & (PS_REMOTE_CLAIMED | PS_REMOTE_DRAINED)) != 0;
    class->live_blocks += out > back && !is_dropped ? out - back : 0;
}

static void count_region(struct ps_census *census, struct ps_slot *slot) {
    struct ps_medium_use use = {0};
    ps_medium_add_use(slot, &use);
    census->run_live_count += use.live_count;
    census->run_live_bytes += use.live_pages << PS_MEDIUM_PAGE_SHIFT;
    census->run_cached_bytes += use.waiting_pages << PS_MEDIUM_PAGE_SHIFT;
}

static void count_slot(struct ps_slot *slot, void *context) {
    struct ps_census *out = context;
    /* acquire: pairs with ps_span_create; makes the constant fields of a span visible. */
    uint8_t kind = ps_load_acquire(&slot->run.kind);
    if (kind == PS_RUN_SPAN && ((struct ps_span *)slot)->class_index < out->class_count) {
        count_span(out, (struct ps_span *)slot);
    } else if (kind == PS_RUN_BLOCK) {
        out->run_live_count++;
        out->run_live_bytes += (uint64_t)slot->run.granules << PS_GRANULE_SHIFT;
    } else if (kind == PS_RUN_MEDIUM) {
        count_region(out, slot);
    } else if (kind == PS_RUN_PAGES) {
        out->pages_bytes += PS_GRANULE_BYTES;
    }
}

static void count_heap(struct ps_heap *heap, void *context) {
    struct ps_census *out = context;
    out->heap_total_count++;
    /* relaxed, all three: see the file comment. */
    out->heap_live_count += ps_load_relaxed(&heap->x_state) == PS_HEAP_LIVE;
    out->remote_free_count += ps_load_relaxed(&heap->x_remote_frees);
    out->remote_batch_count += ps_load_relaxed(&heap->x_remote_batches);
}

/* Subtracts the blocks in the caller's own bins, which count as used in their spans. */
static void subtract_prepared(struct ps_census *out, const struct ps_heap *heap) {
    for (uint32_t i = 0; i < out->class_count; i++) {
        const struct ps_bin *bin = &heap->bins[i];
        uint64_t blocks = ps_bin_window_blocks(bin) + ps_hard_count(heap, i);
        out->classes[i].prepared_blocks = blocks;
        out->classes[i].live_blocks -=
            blocks < out->classes[i].live_blocks ? blocks : out->classes[i].live_blocks;
    }
}

static void sum_classes(struct ps_census *out) {
    for (uint32_t i = 0; i < out->class_count; i++) {
        const struct ps_census_class *class = &out->classes[i];
        out->small_live_bytes += class->live_blocks * class->block_bytes;
        out->small_span_bytes += class->span_bytes;
    }
}

static void read_layers(struct ps_census *out) {
    struct ps_page_counts pages;
    struct ps_medium_counts medium;
    struct ps_mapping_counts mappings;
    struct ps_purge_counts purges;
    struct ps_guard_counts guarded;
    struct ps_limit_counts limit;
    struct ps_profile_counts profile;
    ps_page_cache_count(&pages);
    ps_medium_count(&medium);
    ps_mapping_read(&mappings);
    ps_purge_read(&purges);
    ps_guard_read(&guarded);
    ps_limit_read(&limit);
    ps_profile_count(&profile);
    out->run_live_count += profile.medium_count;
    out->run_live_bytes += profile.medium_bytes;
    out->arena_count = pages.arena_count;
    out->arena_bytes = pages.arena_granules << PS_GRANULE_SHIFT;
    out->cache_dirty_bytes =
        (pages.dirty_granules << PS_GRANULE_SHIFT) + (medium.dirty_pages << PS_MEDIUM_PAGE_SHIFT);
    out->cache_clean_bytes =
        (pages.clean_granules << PS_GRANULE_SHIFT) + (medium.clean_pages << PS_MEDIUM_PAGE_SHIFT);
    out->map_live_count = mappings.live_count;
    out->map_live_bytes = mappings.live_bytes;
    out->map_cached_count = mappings.cached_count;
    out->map_cached_bytes = mappings.cached_bytes;
    out->guard_live_count = guarded.live_count;
    out->guard_live_bytes = guarded.live_bytes;
    out->guard_held_bytes = guarded.held_bytes;
    out->purge_count = purges.calls;
    out->purged_bytes = purges.bytes;
    out->limit_bytes = limit.bytes;
    out->limit_source = limit.source;
    out->limit_near_count = limit.near_count;
    out->limit_purged_bytes = purges.pressed_bytes;
    out->metadata_bytes = ps_metadata_bytes();
    out->orphan_span_count = ps_orphans_count();
    out->mapped_bytes = out->arena_bytes - out->cache_clean_bytes + mappings.live_bytes +
                        mappings.cached_bytes + guarded.held_bytes + out->metadata_bytes;
}

void ps_census_take(struct ps_census *out) {
    memset(out, 0, sizeof *out);
    if (!ps_engine_has_started()) {
        return;
    }
    out->class_count = ps_size_class_count;
    for (uint32_t i = 0; i < out->class_count; i++) {
        out->classes[i].block_bytes = ps_size_classes[i].block_bytes;
    }
    ps_thread_enter();
    struct ps_heap *heap = ps_heap_recover();
    if (heap != NULL) { /* settle the caller's streak and batches first */
        ps_streak_close(heap);
        ps_remote_flush(heap);
    }
    ps_page_cache_walk(count_slot, out);
    ps_heap_walk(count_heap, out);
    if (heap != NULL) {
        subtract_prepared(out, heap);
    }
    ps_thread_leave();
    sum_classes(out);
    read_layers(out);
}
