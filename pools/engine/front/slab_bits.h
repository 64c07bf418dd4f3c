/* SPDX-License-Identifier: MIT */
/*
 * The bitmap of a slab (slab.h). Callers: store.c, store_lists.c, store_purge.c. Under the lock of
 * the slab's store; memory for bitmaps that do not fit a slot has its own (PS_RANK_STORE_CHUNK).
 */
#ifndef PS_FRONT_SLAB_BITS_H
#define PS_FRONT_SLAB_BITS_H

#include "pools/engine/front/slab.h"

static inline void ps_slab_set_word(uint64_t *word, uint64_t bits) {
    ps_store_relaxed(word, bits); /* relaxed: under the lock; others read a snapshot */
}

static inline void ps_slab_set_free_count(struct ps_slab *slab, size_t count) {
    ps_store_relaxed(&slab->x_free_count, (uint16_t)count); /* relaxed: as above */
}

/* Marks adjacent blocks as free, or as used, and does not count them. The first reports one that is
 * free already. */
void ps_slab_add_range(struct ps_slab *slab, size_t first, size_t count);
void ps_slab_remove_range(struct ps_slab *slab, size_t first, size_t count);

/* The number of adjacent free blocks from `first`, up to `most`. */
size_t ps_slab_run_length(const struct ps_slab *slab, size_t first, size_t most);

/* The first free block from `from` on; class limit: none. */
size_t ps_slab_next_free(const struct ps_slab *slab, size_t from);

/* Reports a block that is returned and is free already. */
PS_NORETURN void ps_slab_freed_twice(const struct ps_slab *slab, size_t index);

/* Memory for the bitmap of a slab of its class; NULL when memory is exhausted. Its contents are
 * undefined. */
uint64_t *ps_slab_take_bits(struct ps_slab *slab);
void ps_slab_give_bits(struct ps_slab *slab);

/* Repairs the lock in the child of a fork, on its only thread. */
void ps_slab_bits_fork_child(void);

#endif
