/* SPDX-License-Identifier: MIT */
/*
 * Checked mode of fifos: a tag in front of each block says whether it is live and how long it is,
 * memory that no block has is poisoned, and one thread owns the fifo. Callers: fifo.c. No locks.
 */
#include "pools/fifo/fifo.h"

#include <pthread.h>
#include <string.h>

#define FILL_FREED 0xdd

/* Marks of a tag: no block is likely to contain them. */
#define TAG_LIVE ((uintptr_t)0x6c697665f1f0f1f0)
#define TAG_FREED ((uintptr_t)0x66726565f1f0f1f0)

static struct tag *tag_of(const void *block) { return (struct tag *)(uintptr_t)block - 1; }

void ps_fifo_check_adopt(struct fifo *fifo) { fifo->owner = (void *)pthread_self(); }

void ps_fifo_check_thread(const struct fifo *fifo) {
    if (fifo->owner != (void *)pthread_self()) {
        ps_debug_misuse("used by a thread that does not own it: fifo", fifo, fifo->chunks.name);
    }
}

size_t ps_fifo_check_live(struct fifo *fifo, const void *block) {
    bool is_aligned = ((uintptr_t)block & (sizeof(struct tag) - 1)) == 0;
    if (!is_aligned || !ps_fifo_owns(&fifo->hot, block)) {
        ps_debug_misuse("freed or resized, but not of this pool: block", block, fifo->chunks.name);
    }
    const struct tag *tag = tag_of(block);
    ps_unpoison_defined(tag, sizeof *tag); /* of a block: it is; of anything else: misuse anyway */
    if (tag->state == TAG_FREED) {
        ps_debug_misuse("double free of block", block, fifo->chunks.name);
    }
    if (tag->state != TAG_LIVE) {
        ps_debug_misuse("freed or resized, but no block:", block, fifo->chunks.name);
    }
    return tag->bytes;
}

void ps_fifo_check_born(void *block, size_t bytes) {
    struct tag *tag = tag_of(block);
    ps_unpoison(tag, sizeof *tag + bytes);
    *tag = (struct tag){TAG_LIVE, bytes};
}

void ps_fifo_check_resized(void *block, size_t old_bytes, size_t new_bytes) {
    char *kept_end = (char *)block + ps_min(old_bytes, new_bytes);
    if (new_bytes > old_bytes) {
        ps_unpoison(kept_end, new_bytes - old_bytes);
    } else {
        ps_poison(kept_end, old_bytes - new_bytes);
    }
    tag_of(block)->bytes = new_bytes;
}

void ps_fifo_check_freed(void *block, size_t bytes) {
    tag_of(block)->state = TAG_FREED;
    memset(block, FILL_FREED, bytes);
    ps_poison(block, bytes);
}
