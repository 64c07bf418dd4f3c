/* SPDX-License-Identifier: MIT */
/*
 * See binding.h. Also the start of the engine and of the pages, as in shim/init.c: they share one
 * page cache. No locks.
 */
#include "pools/rust/native/binding.h"

#include "pools/engine/heap/block.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/record/census.h"
#include "pools/pages/pages.h"

#include <pthread.h>

/* ---- start ---- */

void ps_pages_start(void) {
    if (!ps_engine_has_started()) {
        ps_engine_start();
    }
}

static void child(void) {
    ps_pages_fork_child();
    if (ps_lock_fork_repaired()) {
        ps_pages_fork_salvage();
    }
}

/* The engine registers its handlers when it starts: in the child they come before this one, so that
 * the page cache works again when pages that other threads left are given to it. */
__attribute__((constructor(102))) static void program_loaded(void) {
    ps_engine_start();
    (void)pthread_atfork(NULL, NULL, child);
}

/* ---- the engine ---- */

void *ps_rust_alloc(size_t bytes) { return ps_heap_alloc(bytes); }

void *ps_rust_alloc_aligned(size_t bytes, size_t align) {
    return ps_block_alloc_aligned(bytes, align);
}

void *ps_rust_zalloc(size_t bytes) { return ps_block_zalloc(bytes); }

void *ps_rust_resize(void *block, size_t bytes) { return ps_block_resize(block, bytes); }

void ps_rust_free(void *block) { ps_heap_free(block); }

bool ps_rust_trim(void) { return ps_maintenance_trim(0); }

void ps_rust_usage(uint64_t *live_bytes, uint64_t *mapped_bytes) {
    struct ps_census census;
    ps_census_take(&census);
    *live_bytes = census.small_live_bytes + census.run_live_bytes + census.map_live_bytes;
    *mapped_bytes = census.mapped_bytes;
}

/* ---- regions: a Rust reference proves that one thread at a time is inside ---- */

_Static_assert(offsetof(struct ps_region, at) == 0 && offsetof(struct ps_region, end) == 8 &&
                   PS_ALIGN_DEFAULT == 16,
               "src/native.rs has the same");

struct ps_region *ps_rust_region_create(size_t first_bytes, size_t max_bytes) {
    struct ps_region_options options = {
        .chunks = {.first_bytes = first_bytes, .max_bytes = max_bytes}};
    return ps_region_create(&options);
}

void *ps_rust_region_alloc(struct ps_region *region, size_t bytes, size_t align) {
    ps_region_adopt(region);
    return ps_region_alloc_aligned(region, bytes, align);
}

void *ps_rust_region_resize(struct ps_region *region, void *block, size_t old_bytes,
                            size_t new_bytes, size_t align) {
    ps_region_adopt(region);
    return ps_region_realloc_aligned(region, block, old_bytes, new_bytes, align);
}

/* A block that is neither the newest nor large remains allocated: no error. */
void ps_rust_region_free(struct ps_region *region, void *block, size_t bytes, size_t align) {
    ps_region_adopt(region);
    (void)ps_region_free(region, block, bytes, align);
}

void ps_rust_region_reset(struct ps_region *region) {
    ps_region_adopt(region);
    ps_region_reset(region);
}

size_t ps_rust_region_trim(struct ps_region *region, size_t keep_bytes) {
    ps_region_adopt(region);
    return ps_region_trim_to(region, keep_bytes);
}

void ps_rust_region_destroy(struct ps_region *region) {
    ps_region_adopt(region);
    ps_region_destroy(region);
}

void ps_rust_region_usage(const struct ps_region *region, size_t *used_bytes, size_t *held_bytes) {
    struct ps_region_stats stats;
    ps_region_stats(region, &stats);
    *used_bytes = stats.used_bytes;
    *held_bytes = stats.reserved_bytes;
}

/* ---- slots ---- */

_Static_assert(sizeof(struct ps_slots_cursor) == 24, "src/native.rs has the same");

/* NULL: ENOMEM, or an alignment beyond PS_SLOTS_ALIGN_MAX. */
struct ps_slots *ps_rust_slots_create(size_t bytes, size_t align, size_t max_items) {
    struct ps_slots_options options = {.max_items = max_items};
    struct ps_slots *slots = ps_heap_alloc(sizeof *slots);
    if (slots != NULL && !ps_slots_init(slots, bytes, align, &options)) {
        ps_heap_free(slots);
        return NULL;
    }
    return slots;
}

void ps_rust_slots_destroy(struct ps_slots *slots) {
    ps_slots_destroy(slots);
    ps_heap_free(slots);
}

uint64_t ps_rust_slots_insert(struct ps_slots *slots, void **object) {
    return ps_slots_insert(slots, object);
}

void *ps_rust_slots_get(const struct ps_slots *slots, uint64_t handle) {
    return ps_slots_get(slots, handle);
}

bool ps_rust_slots_remove(struct ps_slots *slots, uint64_t handle) {
    return ps_slots_remove(slots, handle);
}

void *ps_rust_slots_next(const struct ps_slots *slots, struct ps_slots_cursor *cursor) {
    return ps_slots_next(slots, cursor);
}

uint64_t ps_rust_slots_handle(const void *object) { return ps_slots_handle(object); }

size_t ps_rust_slots_count(const struct ps_slots *slots) { return slots->live_count; }
