/* SPDX-License-Identifier: MIT */
/*
 * mallctl's figures: see mallctl.h. Those of all arenas, and of arena 0, are of the last refresh,
 * as jemalloc has them: arena 0 has what the created ones do not. Those of a created arena are of
 * now.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/record/census.h"

#include <errno.h>

#define NS_PER_MS UINT64_C(1000000)

/* Words of all arenas, and what arena 0 has of them. */
struct figures {
    uint64_t x_all[PS_ARENA_WORDS];
    uint64_t x_first[PS_ARENA_WORDS];
};
static struct figures figures;

/* Counts of a size class. */
struct class_figures {
    uint64_t x_words[PS_BIN_NONE];
};
static struct class_figures classes[PS_CLASS_LIMIT] PS_SPARSE;

static uint64_t x_epoch;    /* refreshes so far */
static uint64_t x_start_ms; /* the first one */

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* ---- refreshes ---- */

static void take_classes(const struct ps_census *census, uint64_t *words) {
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        uint64_t live = ps_min(class->live_blocks, class->taken_blocks);
        const uint64_t taken[PS_BIN_NONE] = {
            [PS_BIN_MADE] = class->taken_blocks,
            [PS_BIN_FREED] = class->taken_blocks - live,
            [PS_BIN_LIVE] = class->live_blocks,
            [PS_BIN_SLABS] = class->slabs,
        };
        words[PS_ARENA_SMALL_MADE] += class->taken_blocks;
        words[PS_ARENA_SMALL_FREED] += class->taken_blocks - live;
        words[PS_ARENA_CACHED_BYTES] += class->prepared_blocks * class->block_bytes;
        for (size_t j = 0; j < PS_BIN_NONE; j++) {
            ps_store_relaxed(&classes[i].x_words[j], taken[j]); /* relaxed: right by itself */
        }
    }
}

static void take_all(uint64_t *words) {
    struct ps_census census;
    ps_census_take(&census);
    uint64_t large = census.run_live_bytes + census.map_live_bytes + census.guard_live_bytes;
    uint64_t large_count = census.run_live_count + census.map_live_count + census.guard_live_count;
    uint64_t held = census.guard_held_bytes - census.guard_live_bytes;
    uint64_t active = census.small_slab_bytes + large + held + census.run_cached_bytes;
    uint64_t dirty = census.cache_dirty_bytes + census.map_cached_bytes;
    take_classes(&census, words);
    words[PS_ARENA_ALLOCATED] = census.small_live_bytes + large;
    words[PS_ARENA_ACTIVE] = active;
    words[PS_ARENA_METADATA] = census.metadata_bytes;
    words[PS_ARENA_MAPPED] = active + census.pages_bytes + census.metadata_bytes;
    words[PS_ARENA_RESIDENT] = words[PS_ARENA_MAPPED] + dirty;
    words[PS_ARENA_RETAINED] = census.cache_clean_bytes;
    words[PS_ARENA_DIRTY] = dirty;
    words[PS_ARENA_CACHED_BYTES] += census.run_cached_bytes;
    words[PS_ARENA_PURGE_COUNT] = census.purge_count;
    words[PS_ARENA_PURGED_PAGES] = census.purged_bytes / ps_os_page_bytes();
    words[PS_ARENA_SMALL_BYTES] = census.small_live_bytes;
    words[PS_ARENA_LARGE_BYTES] = large;
    words[PS_ARENA_LARGE_MADE] = less(census.malloc_count, words[PS_ARENA_SMALL_MADE]);
    words[PS_ARENA_LARGE_FREED] = less(words[PS_ARENA_LARGE_MADE], large_count);
    words[PS_ARENA_THREADS] = ps_background_threads();
}

/* Words of a partition. Blocks that were freed are not counted by kind: they count as small ones.
 */
static void take_partition(const struct ps_partition *partition, uint64_t *words) {
    struct ps_partition_use use;
    ps_partition_read(partition, &use);
    words[PS_ARENA_ALLOCATED] = use.live_bytes;
    words[PS_ARENA_ACTIVE] = use.mapped_bytes;
    words[PS_ARENA_MAPPED] = use.mapped_bytes;
    words[PS_ARENA_RESIDENT] = use.mapped_bytes + use.held_bytes;
    words[PS_ARENA_DIRTY] = use.held_bytes;
    words[PS_ARENA_SMALL_BYTES] = less(use.live_bytes, use.large_bytes);
    words[PS_ARENA_SMALL_MADE] = less(use.made_count, use.large_count);
    words[PS_ARENA_SMALL_FREED] = less(use.made_count, use.live_count);
    words[PS_ARENA_LARGE_BYTES] = use.large_bytes;
    words[PS_ARENA_LARGE_MADE] = use.large_count;
}

static void refresh(void) {
    uint64_t all[PS_ARENA_WORDS] = {0};
    uint64_t created[PS_ARENA_WORDS] = {0};
    take_all(all);
    for (size_t i = 1; i < ps_mallctl_arena_end(); i++) {
        const struct ps_partition *partition = ps_mallctl_partition(i);
        uint64_t one[PS_ARENA_WORDS] = {0};
        if (partition != NULL) {
            take_partition(partition, one);
        }
        for (size_t j = 0; j < PS_ARENA_WORDS; j++) {
            created[j] += one[j];
        }
    }
    for (size_t i = 0; i < PS_ARENA_WORDS; i++) {
        /* relaxed, both: each is right by itself */
        ps_store_relaxed(&figures.x_all[i], all[i]);
        ps_store_relaxed(&figures.x_first[i], less(all[i], created[i]));
    }
    if (ps_load_relaxed(&x_epoch) == 0) { /* relaxed, all: a note, and a count */
        ps_store_relaxed(&x_start_ms, ps_os_now_ms());
    }
    ps_add_relaxed(&x_epoch, (uint64_t)1);
}

static void refresh_first(void) {
    if (ps_load_relaxed(&x_epoch) == 0) { /* relaxed: a second refresh is harmless */
        refresh();
    }
}

int ps_mallctl_read_epoch(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    refresh_first();
    *value = ps_load_relaxed(&x_epoch); /* relaxed: a count */
    return 0;
}

int ps_mallctl_write_epoch(const size_t *indexes, uint64_t value) {
    (void)indexes;
    (void)value;
    refresh();
    return 0;
}

/* ---- figures ---- */

/* One of the words. */
static uint64_t word_of(size_t arena, unsigned word) {
    if (ps_mallctl_is_all(arena)) {
        return ps_load_relaxed(&figures.x_all[word]); /* relaxed: as in refresh */
    }
    if (arena == 0) {
        return ps_load_relaxed(&figures.x_first[word]); /* relaxed: as in refresh */
    }
    const struct ps_partition *partition = ps_mallctl_partition(arena);
    uint64_t words[PS_ARENA_WORDS] = {0};
    if (partition != NULL) {
        take_partition(partition, words);
    }
    return words[word];
}

static uint64_t uptime_ns(size_t arena) {
    uint64_t now_ms = ps_os_now_ms();
    bool is_created = ps_mallctl_partition(arena) != NULL;
    uint64_t start_ms = ps_load_relaxed(&x_start_ms); /* relaxed: a note */
    uint64_t ms =
        is_created ? (uint32_t)(now_ms - ps_mallctl_arena_since_ms(arena)) : less(now_ms, start_ms);
    return ms * NS_PER_MS;
}

int ps_mallctl_read_arena(unsigned argument, const size_t *indexes, uint64_t *value) {
    size_t arena = indexes[0];
    if (!ps_mallctl_is_arena(arena)) {
        return ENOENT;
    }
    refresh_first();
    switch (argument) {
    case PS_ARENA_ZERO:
        *value = 0;
        break;
    case PS_ARENA_ACTIVE_PAGES:
        *value = word_of(arena, PS_ARENA_ACTIVE) / ps_os_page_bytes();
        break;
    case PS_ARENA_DIRTY_PAGES:
        *value = word_of(arena, PS_ARENA_DIRTY) / ps_os_page_bytes();
        break;
    case PS_ARENA_UPTIME_NS:
        *value = uptime_ns(arena);
        break;
    default:
        *value = word_of(arena, argument);
    }
    return 0;
}

int ps_mallctl_read_figure(unsigned argument, const size_t *indexes, uint64_t *value) {
    const size_t all = PS_MALLCTL_ARENAS_ALL;
    (void)indexes;
    return ps_mallctl_read_arena(argument, &all, value);
}

/* A class is counted in all arenas together, which are arena 0's here. */
int ps_mallctl_read_arena_bin(unsigned argument, const size_t *indexes, uint64_t *value) {
    if (!ps_mallctl_is_arena(indexes[0]) || indexes[1] >= ps_size_class_count) {
        return ENOENT;
    }
    refresh_first();
    bool is_counted = (indexes[0] == 0 || ps_mallctl_is_all(indexes[0])) && argument < PS_BIN_NONE;
    /* relaxed: as in refresh. */
    *value = is_counted ? ps_load_relaxed(&classes[indexes[1]].x_words[argument]) : 0;
    return 0;
}

/* Lengths of blocks that are not counted apart. */
int ps_mallctl_read_arena_length(unsigned argument, const size_t *indexes, uint64_t *value) {
    uint64_t count;
    (void)argument;
    (void)ps_mallctl_read_setting(PS_SETTING_LARGE_COUNT, indexes, &count);
    *value = 0;
    return ps_mallctl_is_arena(indexes[0]) && indexes[1] < count ? 0 : ENOENT;
}
