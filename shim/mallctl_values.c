/* SPDX-License-Identifier: MIT */
/*
 * The values of mallctl's names: see mallctl.h. docs/introspection.md explains each. A figure of
 * `stats` is that of the last refresh, as jemalloc has it.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/record/census.h"
#include "pools/engine/small/size_class.h"
#include "pools/include/poolshim/poolshim.h"
#include "shim/config.h"
#include "shim/profile.h"

#include <errno.h>
#include <string.h>

/* There is one heap. Its index, and those by which jemalloc accepts all arenas: one more than the
 * last, for old programs, and MALLCTL_ARENAS_ALL. */
#define ARENA_COUNT 1
#define ARENAS_ALL 4096

#define QUANTUM_BYTES 16

enum figure {
    ALLOCATED,
    ACTIVE,
    METADATA,
    RESIDENT,
    MAPPED,
    RETAINED,
    SMALL_ALLOCATED,
    DIRTY,
    FIGURE_COUNT
};

static uint64_t x_figures[FIGURE_COUNT];
static uint64_t x_epoch; /* refreshes so far */

static void refresh(void) {
    struct ps_census census;
    ps_census_take(&census);
    uint64_t large = census.run_live_bytes + census.map_live_bytes + census.guard_live_bytes;
    uint64_t dirty = census.cache_dirty_bytes + census.map_cached_bytes;
    uint64_t held = census.guard_held_bytes - census.guard_live_bytes;
    uint64_t active = census.small_slab_bytes + large + held + census.run_cached_bytes;
    uint64_t figures[FIGURE_COUNT] = {
        [ALLOCATED] = census.small_live_bytes + large,
        [ACTIVE] = active,
        [METADATA] = census.metadata_bytes,
        [RESIDENT] = active + dirty + census.pages_bytes + census.metadata_bytes,
        [MAPPED] = active + census.pages_bytes + census.metadata_bytes,
        [RETAINED] = census.cache_clean_bytes,
        [SMALL_ALLOCATED] = census.small_live_bytes,
        [DIRTY] = dirty,
    };
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        ps_store_relaxed(&x_figures[i], figures[i]); /* relaxed: each is right by itself */
    }
    ps_add_relaxed(&x_epoch, 1u); /* relaxed: as above */
}

static int read_figure(enum figure figure, uint64_t *value) {
    if (ps_load_relaxed(&x_epoch) == 0) { /* relaxed: a second refresh is harmless */
        refresh();
    }
    *value = ps_load_relaxed(&x_figures[figure]); /* relaxed: as in refresh */
    return 0;
}

static int check_arena(size_t index) {
    return index <= ARENA_COUNT || index == ARENAS_ALL ? 0 : ENOENT;
}

/* ---- constants ---- */

static int read_zero(size_t index, uint64_t *value) {
    (void)index;
    *value = 0;
    return 0;
}

static int read_one(size_t index, uint64_t *value) {
    (void)index;
    *value = 1;
    return 0;
}

static int read_arena_zero(size_t index, uint64_t *value) {
    *value = 0;
    return check_arena(index);
}

static int read_arena_one(size_t index, uint64_t *value) {
    *value = 1;
    return check_arena(index);
}

static int read_version(size_t index, uint64_t *value) {
    (void)index;
    *value = (uintptr_t) "poolshim " POOLSHIM_VERSION;
    return 0;
}

static int read_debug(size_t index, uint64_t *value) {
    (void)index;
    *value = PS_CHECKED;
    return 0;
}

static int read_quantum(size_t index, uint64_t *value) {
    (void)index;
    *value = QUANTUM_BYTES;
    return 0;
}

static int read_page(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_os_page_bytes();
    return 0;
}

/* ---- settings ---- */

static int read_set_delay_ms(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_shim_settings()->engine.purge_delay_ms;
    return 0;
}

static int read_delay_ms(size_t index, uint64_t *value) {
    *value = ps_retention_usual_delay_ms();
    return check_arena(index);
}

/* -1: memory is never released; here, after seven weeks. */
static int write_delay_ms(size_t index, uint64_t value) {
    bool is_number = value <= UINT32_MAX || value == UINT64_MAX;
    int error = is_number ? check_arena(index) : EFAULT;
    if (error == 0) {
        ps_retention_set_delay(value <= UINT32_MAX ? (uint32_t)value : UINT32_MAX);
    }
    return error;
}

static int read_may_run_background(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_shim_settings()->background != PS_BACKGROUND_NEVER;
    return 0;
}

static int read_stats_print(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_shim_settings()->stats_target != PS_STATS_OFF;
    return 0;
}

static int read_profile(size_t index, uint64_t *value) {
    (void)index;
    *value = (ps_demand_now() & PS_DEMAND_FILE) != 0;
    return 0;
}

static int read_is_sampling(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_demand_now() != 0;
    return 0;
}

static int dump_profile(size_t index, uint64_t value) {
    (void)index;
    int error = ps_profile_write_file((const char *)(uintptr_t)value);
    return error == 0 ? 0 : error == ENOTSUP ? ENOENT : EFAULT;
}

/* ---- state and actions ---- */

static int read_background(size_t index, uint64_t *value) {
    (void)index;
    /* relaxed: a moment later it may be another. */
    *value = ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF;
    return 0;
}

static int flush_thread(size_t index, uint64_t value) {
    (void)index;
    (void)value;
    ps_maintenance_flush();
    return 0;
}

static int purge_arena(size_t index, uint64_t value) {
    (void)value;
    int error = check_arena(index);
    if (error == 0) {
        (void)ps_maintenance_trim(0);
    }
    return error;
}

static int decay_arena(size_t index, uint64_t value) {
    (void)value;
    int error = check_arena(index);
    if (error == 0) {
        ps_maintenance_decay();
    }
    return error;
}

/* ---- size classes ---- */

static int read_bin_count(size_t index, uint64_t *value) {
    (void)index;
    *value = ps_size_class_count;
    return 0;
}

static const struct ps_size_class *class_at(size_t index) {
    return index < ps_size_class_count ? &ps_size_classes[index] : NULL;
}

static int read_bin_bytes(size_t index, uint64_t *value) {
    const struct ps_size_class *class = class_at(index);
    *value = class != NULL ? class->block_bytes : 0;
    return class != NULL ? 0 : ENOENT;
}

static int read_bin_blocks(size_t index, uint64_t *value) {
    const struct ps_size_class *class = class_at(index);
    *value = class != NULL ? (uint64_t)(class->limit - class->first) : 0;
    return class != NULL ? 0 : ENOENT;
}

static int read_bin_span_bytes(size_t index, uint64_t *value) {
    const struct ps_size_class *class = class_at(index);
    *value = class != NULL ? (uint64_t) class->granules << PS_GRANULE_SHIFT : 0;
    return class != NULL ? 0 : ENOENT;
}

/* ---- figures ---- */

static int read_epoch(size_t index, uint64_t *value) {
    uint64_t figure;
    (void)index;
    (void)read_figure(ALLOCATED, &figure);
    *value = ps_load_relaxed(&x_epoch); /* relaxed: as in refresh */
    return 0;
}

static int write_epoch(size_t index, uint64_t value) {
    (void)index;
    (void)value;
    refresh();
    return 0;
}

static int read_arena_figure(enum figure figure, size_t index, uint64_t *value) {
    int error = check_arena(index);
    return error == 0 ? read_figure(figure, value) : error;
}

#define FIGURE(function, figure)                                                                   \
    static int function(size_t index, uint64_t *value) {                                           \
        (void)index;                                                                               \
        return read_figure(figure, value);                                                         \
    }
#define ARENA_FIGURE(function, figure)                                                             \
    static int function(size_t index, uint64_t *value) {                                           \
        return read_arena_figure(figure, index, value);                                            \
    }
FIGURE(read_allocated, ALLOCATED)
FIGURE(read_active, ACTIVE)
FIGURE(read_metadata, METADATA)
FIGURE(read_resident, RESIDENT)
FIGURE(read_mapped, MAPPED)
FIGURE(read_retained, RETAINED)
ARENA_FIGURE(read_arena_small, SMALL_ALLOCATED)
ARENA_FIGURE(read_arena_resident, RESIDENT)
ARENA_FIGURE(read_arena_mapped, MAPPED)
ARENA_FIGURE(read_arena_retained, RETAINED)

static int read_arena_large(size_t index, uint64_t *value) {
    uint64_t small;
    int error = read_arena_figure(ALLOCATED, index, value);
    if (error == 0) {
        (void)read_figure(SMALL_ALLOCATED, &small);
        *value -= small < *value ? small : *value;
    }
    return error;
}

static int read_arena_pages(enum figure figure, size_t index, uint64_t *value) {
    int error = read_arena_figure(figure, index, value);
    *value = error == 0 ? *value / ps_os_page_bytes() : 0;
    return error;
}

static int read_arena_active_pages(size_t index, uint64_t *value) {
    return read_arena_pages(ACTIVE, index, value);
}

static int read_arena_dirty_pages(size_t index, uint64_t *value) {
    return read_arena_pages(DIRTY, index, value);
}

#define ROW(name, type, read, write)                                                               \
    { name, PS_MALLCTL_##type, read, write }

const struct ps_mallctl_row ps_mallctl_rows[] = {
    ROW("version", TEXT, read_version, NULL),
    ROW("epoch", UINT64, read_epoch, write_epoch),
    ROW("background_thread", BOOL, read_background, NULL),

    ROW("config.debug", BOOL, read_debug, NULL),
    ROW("config.fill", BOOL, read_zero, NULL),
    ROW("config.prof", BOOL, read_one, NULL),
    ROW("config.stats", BOOL, read_one, NULL),
    ROW("config.utrace", BOOL, read_zero, NULL),
    ROW("config.xmalloc", BOOL, read_zero, NULL),

    ROW("opt.abort", BOOL, read_zero, NULL),
    ROW("opt.background_thread", BOOL, read_may_run_background, NULL),
    ROW("opt.dirty_decay_ms", INT64, read_set_delay_ms, NULL),
    ROW("opt.muzzy_decay_ms", INT64, read_zero, NULL),
    ROW("opt.narenas", UINT32, read_one, NULL),
    ROW("opt.prof", BOOL, read_profile, NULL),
    ROW("opt.retain", BOOL, read_one, NULL),
    ROW("opt.stats_print", BOOL, read_stats_print, NULL),
    ROW("opt.xmalloc", BOOL, read_zero, NULL),
    ROW("opt.zero", BOOL, read_zero, NULL),

    ROW("thread.tcache.flush", ACTION, NULL, flush_thread),

    ROW("arena.#.initialized", BOOL, read_arena_one, NULL),
    ROW("arena.#.decay", ACTION, NULL, decay_arena),
    ROW("arena.#.purge", ACTION, NULL, purge_arena),
    ROW("arena.#.dirty_decay_ms", INT64, read_delay_ms, write_delay_ms),
    ROW("arena.#.muzzy_decay_ms", INT64, read_arena_zero, NULL),

    ROW("arenas.narenas", UINT32, read_one, NULL),
    ROW("arenas.dirty_decay_ms", INT64, read_delay_ms, write_delay_ms),
    ROW("arenas.muzzy_decay_ms", INT64, read_zero, NULL),
    ROW("arenas.quantum", UINT64, read_quantum, NULL),
    ROW("arenas.page", UINT64, read_page, NULL),
    ROW("arenas.nbins", UINT32, read_bin_count, NULL),
    ROW("arenas.bin.#.size", UINT64, read_bin_bytes, NULL),
    ROW("arenas.bin.#.nregs", UINT32, read_bin_blocks, NULL),
    ROW("arenas.bin.#.slab_size", UINT64, read_bin_span_bytes, NULL),

    ROW("prof.active", BOOL, read_is_sampling, NULL),
    ROW("prof.dump", TEXT, NULL, dump_profile),

    ROW("stats.allocated", UINT64, read_allocated, NULL),
    ROW("stats.active", UINT64, read_active, NULL),
    ROW("stats.metadata", UINT64, read_metadata, NULL),
    ROW("stats.resident", UINT64, read_resident, NULL),
    ROW("stats.mapped", UINT64, read_mapped, NULL),
    ROW("stats.retained", UINT64, read_retained, NULL),
    ROW("stats.background_thread.num_threads", UINT64, read_background, NULL),
    ROW("stats.arenas.#.pactive", UINT64, read_arena_active_pages, NULL),
    ROW("stats.arenas.#.pdirty", UINT64, read_arena_dirty_pages, NULL),
    ROW("stats.arenas.#.pmuzzy", UINT64, read_arena_zero, NULL),
    ROW("stats.arenas.#.mapped", UINT64, read_arena_mapped, NULL),
    ROW("stats.arenas.#.resident", UINT64, read_arena_resident, NULL),
    ROW("stats.arenas.#.retained", UINT64, read_arena_retained, NULL),
    ROW("stats.arenas.#.small.allocated", UINT64, read_arena_small, NULL),
    ROW("stats.arenas.#.large.allocated", UINT64, read_arena_large, NULL),
};
const size_t ps_mallctl_row_count = sizeof ps_mallctl_rows / sizeof ps_mallctl_rows[0];

size_t ps_mallctl_bytes(enum ps_mallctl_type type) {
    static const uint8_t bytes[] = {
        [PS_MALLCTL_ACTION] = 0,
        [PS_MALLCTL_BOOL] = sizeof(bool),
        [PS_MALLCTL_UINT32] = sizeof(uint32_t),
        [PS_MALLCTL_UINT64] = sizeof(uint64_t),
        [PS_MALLCTL_INT64] = sizeof(int64_t),
        [PS_MALLCTL_TEXT] = sizeof(const char *),
    };
    return bytes[type];
}

/* Reads decimal digits at *text, as far as they go. False: there are none, or too many. */
static bool read_index(const char **text, size_t *index) {
    const char *digit = *text;
    for (*index = 0; *digit >= '0' && *digit <= '9' && *index <= UINT32_MAX; digit++) {
        *index = *index * 10 + (size_t)(*digit - '0');
    }
    bool is_index = digit != *text && *index <= UINT32_MAX;
    *text = digit;
    return is_index;
}

static bool matches(const char *pattern, const char *name, size_t *index) {
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#') {
            if (!read_index(&name, index)) {
                return false;
            }
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

const struct ps_mallctl_row *ps_mallctl_find(const char *name, size_t *index) {
    for (size_t i = 0; i < ps_mallctl_row_count; i++) {
        *index = 0;
        if (matches(ps_mallctl_rows[i].name, name, index)) {
            return &ps_mallctl_rows[i];
        }
    }
    return NULL;
}
