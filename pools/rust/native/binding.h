/* SPDX-License-Identifier: MIT */
/*
 * Functions for the Rust crate beside those of the public headers: the engine's inline paths, the
 * inline functions of slots, and structures that Rust does not lay out itself. src/native.rs
 * declares the same. Rust proves what each call requires: threads, live blocks, sizes.
 *
 * Nothing here reads the environment: the engine uses its defaults. The pools read PS_DEBUG.
 */
#ifndef PS_RUST_NATIVE_BINDING_H
#define PS_RUST_NATIVE_BINDING_H

#include <poolshim/region.h>
#include <poolshim/slots.h>

/* ---- the engine: any thread; NULL: memory is exhausted ---- */

/* Aligned to 16, or to 8 up to 8 bytes. */
void *ps_rust_alloc(size_t bytes);
void *ps_rust_zalloc(size_t bytes);

/* align: power of two. */
void *ps_rust_alloc_aligned(size_t bytes, size_t align);

/* block: live, not NULL; bytes: > 0. On failure the block is unchanged. */
void *ps_rust_resize(void *block, size_t bytes);

void ps_rust_free(void *block);

/* Returns free memory to the system. False: there was none. */
bool ps_rust_trim(void);

/* A walk over the engine's memory. */
void ps_rust_usage(uint64_t *live_bytes, uint64_t *mapped_bytes);

/* ---- regions: as region.h; one thread at a time, which may be another one at each call ---- */

/* 0: the default. NULL: memory is exhausted. */
struct ps_region *ps_rust_region_create(size_t first_bytes, size_t max_bytes);
void *ps_rust_region_alloc(struct ps_region *region, size_t bytes, size_t align);
void *ps_rust_region_resize(struct ps_region *region, void *block, size_t old_bytes,
                            size_t new_bytes, size_t align);

/* A block that is neither the newest nor large remains allocated. */
void ps_rust_region_free(struct ps_region *region, void *block, size_t bytes, size_t align);
void ps_rust_region_reset(struct ps_region *region);
size_t ps_rust_region_trim(struct ps_region *region, size_t keep_bytes);
void ps_rust_region_destroy(struct ps_region *region);
void ps_rust_region_usage(const struct ps_region *region, size_t *used_bytes, size_t *held_bytes);

/* ---- slots: as slots.h ---- */

/* NULL: memory is exhausted, or align is above PS_SLOTS_ALIGN_MAX. */
struct ps_slots *ps_rust_slots_create(size_t bytes, size_t align, size_t max_items);
void ps_rust_slots_destroy(struct ps_slots *slots);
uint64_t ps_rust_slots_insert(struct ps_slots *slots, void **object);
void *ps_rust_slots_get(const struct ps_slots *slots, uint64_t handle);
bool ps_rust_slots_remove(struct ps_slots *slots, uint64_t handle);
void *ps_rust_slots_next(const struct ps_slots *slots, struct ps_slots_cursor *cursor);
uint64_t ps_rust_slots_handle(const void *object);
size_t ps_rust_slots_count(const struct ps_slots *slots);

#endif
