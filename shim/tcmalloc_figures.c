/* SPDX-License-Identifier: MIT */
/*
 * See tcmalloc.h: figures and properties. No locks of its own.
 */
#include "shim/tcmalloc.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/window.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/page/retention.h"
#include "shim/config.h"

#include <errno.h>
#include <string.h>

/* gperftools' bounds on max_total_thread_cache_bytes. */
#define CACHE_LEAST_BYTES ((size_t)512 << 10)
#define CACHE_MOST_BYTES ((size_t)1 << 30)

#define MIB_SHIFT 20

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

/* ---- figures ---- */

static size_t bytes_in_front(const struct ps_front *front, bool is_medium) {
    size_t bytes = 0;
    for (PS_FRONT_EACH_CLASS(i)) {
        if (ps_front_is_length(i) == is_medium) {
            /* relaxed: a snapshot of another thread's front. */
            size_t count = ps_load_relaxed(&front->x_state[i]) & PS_FRONT_COUNT;
            bytes += count * ps_front_block_bytes(i);
        }
    }
    return bytes;
}

static size_t bytes_in_windows(const struct ps_windows *windows) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        /* relaxed: as above */
        bytes +=
            ps_range_count(ps_load_relaxed(&windows->x_ranges[i])) * ps_size_classes[i].block_bytes;
    }
    return bytes;
}

/* Blocks in windows, and the number of threads that have some. */
static void add_windows(struct ps_tcmalloc_figures *out) {
    /* acquire: pairs with ps_windows_acquire; makes the constant field next_made visible. */
    const struct ps_windows *windows = ps_load_acquire(&ps_windows_x_made);
    for (; windows != NULL; windows = windows->next_made) {
        out->thread += bytes_in_windows(windows);
        out->thread_count += ps_load_relaxed(&windows->x_owner) != 0; /* relaxed: as above */
    }
}

size_t ps_tcmalloc_thread_bytes(void) {
    const struct ps_front_words *words = &ps_front_thread;
    size_t bytes = bytes_in_windows(words->windows);
    ptrdiff_t streak = words->streak_step != 0 ? words->streak_next - words->streak_first : 0;
    if (words->own != NULL) {
        bytes += bytes_in_front(words->own, false) + bytes_in_front(words->own, true);
    }
    return bytes + (size_t)(streak < 0 ? -streak : streak);
}

static void add_free_blocks(struct ps_tcmalloc_figures *out, const struct ps_census *census) {
    /* relaxed: as above */
    const struct ps_front *own = ps_load_relaxed(&ps_front_table.x_own);
    size_t own_small = own != NULL ? bytes_in_front(own, false) : 0;
    size_t own_medium = own != NULL ? bytes_in_front(own, true) : 0;
    size_t prepared = 0;
    for (uint32_t i = 0; i < census->class_count; i++) {
        prepared += census->classes[i].prepared_blocks * census->classes[i].block_bytes;
    }
    add_windows(out);
    out->thread += own_small;
    out->transfer = less(prepared, out->thread) + less(census->run_cached_bytes, own_medium);
    out->central = less(census->small_slab_bytes, census->small_live_bytes + prepared) +
                   less(census->guard_held_bytes, census->guard_live_bytes);
    out->thread += own_medium;
}

static void add_sums(struct ps_tcmalloc_figures *out) {
    out->local = out->thread + out->transfer;
    out->slack = out->page_free + out->page_unmapped;
    out->heap = out->application + out->local + out->central + out->slack;
    out->committed = out->heap - out->page_unmapped;
    out->physical = out->committed + out->metadata;
    out->virtual = out->heap + out->metadata;
    out->fragmentation = out->committed - out->application;
    out->ever = out->committed + out->released;
}

/* The bound that a program has set on all caches, and the one on each thread's; 0: none. */
static size_t x_cache_most;
static size_t x_cache_least;

static void add_settings(struct ps_tcmalloc_figures *out) {
    /* relaxed, all: settings by themselves. */
    size_t most = ps_load_relaxed(&x_cache_most);
    uint64_t now_most =
        ps_load_relaxed(&ps_front_limits[0].x_most) + ps_load_relaxed(&ps_front_limits[1].x_most);
    uint64_t limit = ps_load_relaxed(&ps_limit_words.x_setting);
    out->cache_most = most != 0 ? most : now_most;
    out->cache_least = ps_load_relaxed(&x_cache_least);
    out->is_aggressive = ps_retention_usual_delay_ms() == 0;
    bool is_percent = (limit & PS_LIMIT_PERCENT) != 0;
    out->limit_mib = (is_percent ? ps_load_relaxed(&ps_limit_x_counts.bytes) : limit) >> MIB_SHIFT;
}

void ps_tcmalloc_read(struct ps_tcmalloc_figures *out, struct ps_census *census) {
    ps_census_take(census);
    *out = (struct ps_tcmalloc_figures){
        .application = census->small_live_bytes + census->run_live_bytes + census->map_live_bytes +
                       census->guard_live_bytes + census->pages_bytes,
        .page_free = census->cache_dirty_bytes + census->map_cached_bytes,
        .page_unmapped = census->cache_clean_bytes,
        .metadata = census->metadata_bytes,
        .released = census->purged_bytes,
        .purge_count = census->purge_count,
        .reserve_count = census->arena_count + census->map_live_count + census->map_cached_count,
        .span_count = census->run_live_count + census->map_live_count + census->guard_live_count,
    };
    for (uint32_t i = 0; i < census->class_count; i++) {
        out->span_count += census->classes[i].slabs;
    }
    add_free_blocks(out, census);
    add_sums(out);
    add_settings(out);
}

/* ---- properties ---- */

static bool set_cache_most(size_t value) {
    size_t bytes = ps_min(ps_max(value, CACHE_LEAST_BYTES), CACHE_MOST_BYTES);
    ps_store_relaxed(&x_cache_most, bytes); /* relaxed: as above */
    ps_front_cap_budget(bytes);
    return true;
}

/* A hint: the blocks that one thread alone uses are bounded by their windows. */
static bool set_cache_least(size_t value) {
    ps_store_relaxed(&x_cache_least, value); /* relaxed: as above */
    return true;
}

static bool set_aggressive(size_t value) {
    uint32_t usual_ms = ps_shim_settings()->engine.purge_delay_ms;
    ps_retention_set_delay(value != 0 ? 0 : usual_ms);
    return true;
}

static bool set_limit(size_t value) {
    if (value > SIZE_MAX >> (MIB_SHIFT + 1)) {
        return false;
    }
    struct ps_limit_setting setting = {.bytes = (uint64_t)value << MIB_SHIFT};
    ps_limit_set(&setting);
    return true;
}

#define BOTH (PS_TCMALLOC_GPERFTOOLS | PS_TCMALLOC_GOOGLE)
#define FIGURE(apis, name, figure, set)                                                            \
    { name, offsetof(struct ps_tcmalloc_figures, figure), apis, set }

static const struct property {
    const char *name;
    size_t at;
    unsigned apis;
    bool (*set)(size_t value); /* NULL: it is read-only */
} properties[] = {
    FIGURE(BOTH, "generic.current_allocated_bytes", application, NULL),
    FIGURE(BOTH, "generic.heap_size", heap, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "generic.total_physical_bytes", physical, NULL),
    FIGURE(BOTH, "tcmalloc.slack_bytes", slack, NULL),
    FIGURE(BOTH, "tcmalloc.pageheap_free_bytes", page_free, NULL),
    FIGURE(BOTH, "tcmalloc.pageheap_unmapped_bytes", page_unmapped, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.central_cache_free_bytes", central, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.transfer_cache_free_bytes", transfer, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.thread_cache_free_bytes", thread, NULL),
    FIGURE(BOTH, "tcmalloc.current_total_thread_cache_bytes", thread, NULL),
    FIGURE(BOTH, "tcmalloc.max_total_thread_cache_bytes", cache_most, set_cache_most),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.min_per_thread_cache_bytes", cache_least,
           set_cache_least),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_committed_bytes", committed, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_scavenge_count", purge_count, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_commit_count", reserve_count, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_total_commit_bytes", ever, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_decommit_count", purge_count, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_total_decommit_bytes", released, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_reserve_count", reserve_count, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.pageheap_total_reserve_bytes", heap, NULL),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.aggressive_memory_decommit", is_aggressive,
           set_aggressive),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.heap_limit_mb", limit_mib, set_limit),
    FIGURE(PS_TCMALLOC_GPERFTOOLS, "tcmalloc.impl.thread_cache_count", thread_count, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "generic.bytes_in_use_by_app", application, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "generic.physical_memory_used", physical, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "generic.virtual_memory_used", virtual, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.central_cache_free", central, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.cpu_free", transfer, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.thread_cache_free", thread, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.thread_cache_count", thread_count, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.local_bytes", local, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.page_heap_free", page_free, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.page_heap_unmapped", page_unmapped, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.metadata_bytes", metadata, NULL),
    FIGURE(PS_TCMALLOC_GOOGLE, "tcmalloc.external_fragmentation_bytes", fragmentation, NULL),
};

static const struct property *find(enum ps_tcmalloc_api api, const char *name, size_t length) {
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        const struct property *property = &properties[i];
        if ((property->apis & api) != 0 && strlen(property->name) == length &&
            memcmp(property->name, name, length) == 0) {
            return property;
        }
    }
    return NULL;
}

bool ps_tcmalloc_get(enum ps_tcmalloc_api api, const char *name, size_t length, size_t *value) {
    struct ps_census census;
    struct ps_tcmalloc_figures figures;
    int saved_errno = errno;
    const struct property *property = find(api, name, length);
    if (property == NULL) {
        return false;
    }
    ps_tcmalloc_read(&figures, &census);
    memcpy(value, (const char *)&figures + property->at, sizeof *value);
    errno = saved_errno;
    return true;
}

bool ps_tcmalloc_set(const char *name, size_t value) {
    int saved_errno = errno;
    const struct property *property = find(PS_TCMALLOC_GPERFTOOLS, name, strlen(name));
    bool is_set = property != NULL && property->set != NULL && property->set(value);
    errno = saved_errno;
    return is_set;
}
