/* SPDX-License-Identifier: MIT */
/*
 * See slab_bits.h.
 */
#include "pools/engine/front/slab_bits.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"

static inline uint64_t mask_of(size_t at, size_t count) {
    return (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << at;
}

PS_COLD void ps_slab_freed_twice(const struct ps_slab *slab, size_t index) {
    ps_slab_misuse(slab, ps_slab_block(slab, index), PS_MISUSE_FREE);
}

void ps_slab_add_range(struct ps_slab *slab, size_t first, size_t count) {
    for (size_t left = count; left != 0;) {
        size_t at = first % 64;
        size_t here = ps_min(64 - at, left);
        uint64_t *word = &slab->bits[first / 64];
        uint64_t mask = mask_of(at, here);
        if (PS_UNLIKELY((*word & mask) != 0)) {
            ps_slab_freed_twice(slab, first - at + (size_t)__builtin_ctzll(*word & mask));
        }
        ps_slab_set_word(word, *word | mask);
        first += here;
        left -= here;
    }
}

void ps_slab_remove_range(struct ps_slab *slab, size_t first, size_t count) {
    for (size_t left = count; left != 0;) {
        size_t at = first % 64;
        size_t here = ps_min(64 - at, left);
        ps_slab_set_word(&slab->bits[first / 64], slab->bits[first / 64] & ~mask_of(at, here));
        first += here;
        left -= here;
    }
}

size_t ps_slab_run_length(const struct ps_slab *slab, size_t first, size_t most) {
    size_t length = 0;
    while (length < most) {
        size_t at = (first + length) % 64;
        uint64_t used = ~slab->bits[(first + length) / 64] >> at;
        size_t here = used != 0 ? ps_min((size_t)__builtin_ctzll(used), 64 - at) : 64 - at;
        length += here;
        if (here != 64 - at) {
            break;
        }
    }
    return ps_min(length, most);
}

size_t ps_slab_next_free(const struct ps_slab *slab, size_t from) {
    size_t limit = ps_slab_class(slab)->limit;
    while (from < limit) {
        uint64_t left = slab->bits[from / 64] >> from % 64;
        if (left != 0) {
            return from + (size_t)__builtin_ctzll(left);
        }
        from = (from | 63) + 1;
    }
    return limit;
}

/* Memory of bitmaps that do not fit a slot: free ones, by their length in units of 16 words. */
#define CHUNK_WORDS 16
#define CHUNK_SORTS (65536 / 8 / 64 / CHUNK_WORDS + 1)
static struct ps_lock chunk_lock = PS_LOCK_INIT(PS_RANK_STORE_CHUNK);
static uint64_t *free_chunks[CHUNK_SORTS + 1];

static size_t chunk_sort(const struct ps_size_class *class) {
    return (class->limit + 64 * CHUNK_WORDS - 1u) / (64 * CHUNK_WORDS);
}

uint64_t *ps_slab_take_bits(struct ps_slab *slab) {
    const struct ps_size_class *class = ps_slab_class(slab);
    if (class->limit <= 64 * PS_SLAB_WORDS) {
        return slab->words;
    }
    size_t sort = chunk_sort(class);
    ps_lock_acquire(&chunk_lock);
    uint64_t *chunk = chunk_lock.depth == 0 ? free_chunks[sort] : NULL;
    if (chunk != NULL) {
        free_chunks[sort] = (uint64_t *)(uintptr_t)chunk[0];
    }
    ps_lock_release(&chunk_lock);
    return chunk != NULL ? chunk : ps_metadata_take(sort * CHUNK_WORDS * sizeof *chunk);
}

void ps_slab_give_bits(struct ps_slab *slab) {
    if (slab->bits != slab->words) {
        size_t sort = chunk_sort(ps_slab_class(slab));
        ps_lock_acquire(&chunk_lock);
        if (chunk_lock.depth == 0) {
            slab->bits[0] = (uintptr_t)free_chunks[sort];
            free_chunks[sort] = slab->bits;
        }
        ps_lock_release(&chunk_lock);
    }
}

void ps_slab_bits_fork_child(void) {
    (void)ps_lock_fork_child(&chunk_lock); /* its lists are right at each instant */
}
