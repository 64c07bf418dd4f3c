/* SPDX-License-Identifier: MIT */
/*
 * See census.h. Reads words of other threads with relaxed loads: a snapshot, in which each number
 * was right at some moment during the call.
 */
#include "pools/engine/record/census.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/site.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/extents.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/page_peek.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/profile/profile.h"

#include <string.h>

/* Counts of the layers below. */
struct layers {
    struct ps_page_counts pages;
    struct ps_medium_counts medium;
    struct ps_mapping_counts mappings;
    struct ps_profile_counts profile;
};

struct count {
    struct ps_census *out;
    struct layers layers; /* without locks: what the walk finds of them */
};

static void count_slab(struct ps_census *census, const struct ps_slab *slab) {
    struct ps_census_class *class = &census->classes[slab->class_index];
    size_t capacity = slab->capacity;
    if (slab->class_index >= census->class_count) { /* of a partition: those are reported, too */
        census->class_count = ps_size_class_all_count;
    }
    /* relaxed: see the file comment. */
    class->live_blocks += capacity - ps_min(ps_load_relaxed(&slab->x_free_count), capacity);
    class->slabs++;
    class->slab_bytes += (uint64_t)slab->run.granules << PS_GRANULE_SHIFT;
}

static void count_region(struct ps_census *census, struct ps_slot *slot) {
    struct ps_medium_use use = {0};
    ps_medium_add_use(slot, &use);
    census->run_live_count += use.live_count;
    census->run_live_bytes += use.live_pages << PS_MEDIUM_PAGE_SHIFT;
    census->run_cached_bytes += use.waiting_pages << PS_MEDIUM_PAGE_SHIFT;
}

static void count_slot(struct ps_slot *slot, void *context) {
    struct ps_census *out = ((struct count *)context)->out;
    /* acquire: pairs with ps_store_grow; makes the constant fields of a slab visible. */
    uint8_t kind = ps_load_acquire(&slot->run.kind);
    if (kind == PS_RUN_SLAB && ((struct ps_slab *)slot)->class_index < ps_size_class_all_count) {
        count_slab(out, (struct ps_slab *)slot);
    } else if (kind == PS_RUN_BLOCK) {
        out->run_live_count++;
        out->run_live_bytes += (uint64_t)slot->run.granules << PS_GRANULE_SHIFT;
    } else if (kind == PS_RUN_MEDIUM) {
        count_region(out, slot);
    } else if (kind == PS_RUN_PAGES) {
        out->pages_bytes += PS_GRANULE_BYTES;
    }
}

/* Free memory, which its layer counts under its lock. */
static void count_free(struct ps_slot *slot, struct layers *layers) {
    /* relaxed: see the file comment */
    uint8_t kind = ps_load_relaxed(&slot->run.kind);
    if (kind == PS_RUN_FREE) {
        uint64_t *granules =
            slot->run.is_dirty ? &layers->pages.dirty_granules : &layers->pages.clean_granules;
        *granules += slot->run.granules;
    } else if (kind == PS_RUN_MEDIUM) {
        const struct ps_medium_region *region = (const struct ps_medium_region *)slot;
        size_t dirty = region->dirty_free;
        layers->medium.dirty_pages += dirty;
        layers->medium.clean_pages += region->free_pages - ps_min(dirty, region->free_pages);
    }
}

static void peek_at_slot(struct ps_slot *slot, void *context) {
    count_slot(slot, context);
    count_free(slot, &((struct count *)context)->layers);
}

/* Subtracts free blocks that count as used in their slabs. */
static void subtract(struct ps_census_class *class, uint64_t blocks) {
    class->prepared_blocks += blocks;
    class->live_blocks -= ps_min(blocks, class->live_blocks);
}

/* Subtracts what fronts, windows and the quarantine have; adds what was taken of these. */
static void subtract_cached(struct ps_census *out) {
    for (uint32_t i = 0; i < out->class_count; i++) {
        struct ps_census_class *class = &out->classes[i];
        size_t in_windows = ps_windows_blocks(i);
        subtract(class, ps_front_blocks(i) + in_windows + ps_hard_count(i));
        /* relaxed, both: see the file comment. */
        class->taken_blocks += ps_load_relaxed(&ps_store_x_counts[i].x_windowed) - in_windows;
        class->taken_blocks += ps_load_relaxed(&ps_store_x_counts[i].x_singles) + ps_front_takes(i);
        class->rounding = ps_front_rounding(i);
    }
}

static void sum_classes(struct ps_census *out) {
    for (uint32_t i = 0; i < out->class_count; i++) {
        struct ps_census_class *class = &out->classes[i];
        uint64_t live_bytes = class->live_blocks * class->block_bytes;
        out->small_live_bytes += live_bytes;
        out->small_slab_bytes += class->slab_bytes;
        out->rounding_bytes += (live_bytes >> 8) * class->rounding >> 8;
        out->malloc_count += class->taken_blocks;
        out->free_count -= class->live_blocks;
    }
}

/* free_count: so far the live blocks, negative. */
static void sum_calls(struct ps_census *out) {
    out->has_calls = !ps_hard_is_on();
    /* relaxed: see the file comment */
    out->malloc_count += ps_load_relaxed(&ps_large_x_allocs) + ps_medium_requests();
    out->malloc_count += out->guard_live_count;
    uint64_t live = out->run_live_count + out->map_live_count + out->guard_live_count;
    out->free_count += out->malloc_count - live;
    if (out->free_count > out->malloc_count) {
        out->free_count = 0; /* a block was counted before its malloc */
    }
}

static void read_layers(struct layers *layers) {
    ps_page_cache_count(&layers->pages);
    ps_medium_count(&layers->medium);
    ps_mapping_read(&layers->mappings);
    ps_profile_count(&layers->profile);
}

/* The same without locks. The counts may be of different moments. */
static void peek_at_layers(struct layers *layers) {
    struct ps_page_counts *pages = &layers->pages;
    pages->arena_count = ps_load_relaxed(&ps_page_arena_x_count); /* relaxed: as above */
    ps_page_peek_arenas(&pages->arena_granules, &pages->closed_granules);
    pages->clean_granules += pages->closed_granules;
    layers->mappings = ps_mapping_x_counts;
    layers->profile = ps_profile_x_counts;
}

/* Counts of one word each. */
static void read_words(struct ps_census *out) {
    /* relaxed, all: see the file comment */
#define PS_FIGURE(...)
#define PS_FIGURE_IF(...)
#define PS_WORD(section, key, unit, name, word, metric, label, help)                               \
    out->name = ps_load_relaxed(&(word));
#include "pools/engine/record/figures.def"
}

static void add_layers(struct ps_census *out, const struct layers *layers) {
    const struct ps_page_counts *pages = &layers->pages;
    const struct ps_medium_counts *medium = &layers->medium;
    const struct ps_mapping_counts *mappings = &layers->mappings;
    read_words(out);
    out->run_live_count += layers->profile.medium_count;
    out->run_live_bytes += layers->profile.medium_bytes;
    out->arena_count = pages->arena_count;
    /* relaxed, all: see the file comment */
    uint64_t dirty_granules = pages->dirty_granules + ps_load_relaxed(&ps_extents_x_counts.x_dirty);
    uint64_t reserved = ps_load_relaxed(&ps_extents_x_counts.x_reserved);
    uint64_t clean_granules =
        pages->clean_granules + ps_load_relaxed(&ps_extents_x_counts.x_clean) + reserved;
    out->arena_bytes = (pages->arena_granules + reserved) << PS_GRANULE_SHIFT;
    out->cache_dirty_bytes =
        (dirty_granules << PS_GRANULE_SHIFT) + (medium->dirty_pages << PS_MEDIUM_PAGE_SHIFT);
    out->cache_clean_bytes =
        (clean_granules << PS_GRANULE_SHIFT) + (medium->clean_pages << PS_MEDIUM_PAGE_SHIFT);
    out->map_live_count = mappings->live_count;
    out->map_live_bytes = mappings->live_bytes;
    out->map_cached_count = mappings->cached_count;
    out->map_cached_bytes = mappings->cached_bytes;
    out->limit_source = ps_load_relaxed(&ps_limit_x_counts.source); /* relaxed: as above */
    out->mapped_bytes = out->arena_bytes - out->cache_clean_bytes + mappings->live_bytes +
                        mappings->cached_bytes + out->guard_held_bytes + out->metadata_bytes;
    sum_calls(out);
}

/* Returns false if there is nothing to count. */
static bool begin(struct ps_census *out) {
    memset(out, 0, sizeof *out);
    if (!ps_engine_has_started()) {
        return false;
    }
    out->class_count = ps_size_class_count;
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        out->classes[i].block_bytes = ps_size_classes[i].block_bytes;
    }
    return true;
}

void ps_census_take(struct ps_census *out) {
    if (!begin(out)) {
        return;
    }
    ps_front_close_streak();
    struct count count = {.out = out};
    ps_page_cache_walk(count_slot, &count);
    subtract_cached(out);
    read_layers(&count.layers);
    sum_classes(out);
    add_layers(out, &count.layers);
}

void ps_census_peek(struct ps_census *out) {
    if (!begin(out)) {
        return;
    }
    struct count count = {.out = out};
    ps_page_peek(peek_at_slot, &count);
    subtract_cached(out);
    peek_at_layers(&count.layers);
    sum_classes(out);
    add_layers(out, &count.layers);
}
