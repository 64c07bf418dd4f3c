/* SPDX-License-Identifier: MIT */
/*
 * Checks blocks that the calling thread does not own: blocks of other threads, and, at the end of
 * the process, quarantined and free ones. Nothing else would detect a write after free to these, or
 * a write over the end of a block that is never freed. See hard.h.
 *
 * From level 2 on each block's shadow byte tells which contents it must have; other threads may run
 * meanwhile. At level 1 there are no shadow bytes: free blocks must be zero, except for a mark, and
 * are checked only if no other thread could be accessing them, in slabs whose memory read as zero
 * when it was taken. Locks: the page cache's, during the walk over the slabs.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/shadow.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_canary.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"

#define SWEEP_BYTES ((size_t)64 << 20) /* upper bound: 10 ms */
#define LOOKS 3                        /* checks that must agree */

/* True when a free block is zero, except for a mark in its first word. */
static bool is_zero(const void *block, size_t bytes) {
    const uint64_t *word = block;
    uint64_t seen = 0;
    for (size_t i = 1; i < bytes / sizeof *word; i++) {
        seen |= word[i];
    }
    return seen == 0 && (word[0] == 0 || ps_mark_is_set(block));
}

/* Returns a description if a block contradicts its shadow byte, or NULL, also if the shadow byte
 * changes meanwhile. */
PS_RACING const char *damage(const void *block, size_t block_bytes, const uint8_t *mark) {
    uint8_t before = ps_shadow_read(mark);
    const char *what = NULL;
    if (ps_shadow_is(before, PS_SHADOW_LIVE) &&
        !ps_canary_is_intact(block, ps_canary_room(block_bytes))) {
        what = PS_MISUSE_OVERRUN;
    } else if (ps_shadow_is(before, PS_SHADOW_FREED) && !ps_is_wiped(block, block_bytes)) {
        what = PS_MISUSE_LATE_WRITE;
    }
    PS_BARRIER();
    return ps_shadow_read(mark) == before ? what : NULL;
}

PS_COLD void ps_hard_check_other(const struct ps_slab *slab, const void *block) {
    uint32_t no_one = 0;
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    const uint8_t *mark = ps_shadow_at(block);
    const char *what = NULL;
    for (int i = 0; i < LOOKS; i++) {
        what = mark != NULL ? damage(block, block_bytes, mark) : NULL;
        if (what == NULL) {
            return;
        }
        ps_os_wait_ms(&no_one, 0, 1);
    }
    ps_fatal_block(what, block, block_bytes);
}

struct sweep {
    size_t bytes_left;
    bool is_alone; /* no other thread has blocks in use */
};

/* Checks by shadow bytes: those of blocks that were never granted tell nothing. */
static void sweep_slab(const struct ps_slab *slab) {
    const struct ps_size_class *class = ps_slab_class(slab);
    for (size_t i = class->first; i < class->limit; i++) {
        const char *block = ps_slab_block(slab, i);
        const uint8_t *mark = ps_shadow_at(block);
        if (PS_UNLIKELY(mark != NULL && damage(block, class->block_bytes, mark) != NULL)) {
            ps_hard_check_other(slab, block);
        }
    }
}

/* True if the sweep may read so many bytes. */
static bool spend(struct sweep *sweep, size_t bytes) {
    bool may_read = bytes <= sweep->bytes_left;
    sweep->bytes_left -= may_read ? bytes : 0;
    return may_read;
}

static void check_free(uint32_t class_index, const void *block) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (PS_UNLIKELY(!is_zero(block, block_bytes))) {
        ps_fatal_block(PS_MISUSE_LATE_WRITE, block, block_bytes);
    }
}

/* Checks the blocks that are free in the bitmap. */
static void sweep_free(const struct ps_slab *slab) {
    const struct ps_size_class *class = ps_slab_class(slab);
    for (size_t i = class->first; i < class->limit; i++) {
        const char *block = ps_slab_block(slab, i);
        if (ps_slab_is_free(slab, block)) {
            check_free(slab->class_index, block);
        }
    }
}

/* Checks a block in a front: it has its mark, and was zeroed when it was freed, or comes from a
 * slab whose memory read as zero. */
static void check_in_front(uint32_t class_index, const void *block) {
    if (PS_UNLIKELY(!ps_mark_is_set(block))) {
        ps_fatal_block(PS_MISUSE_LATE_WRITE, block, ps_size_classes[class_index].block_bytes);
    }
    if (ps_slab_of(block)->is_zero != 0) {
        check_free(class_index, block);
    }
}

static void sweep_slot(struct ps_slot *slot, void *context) {
    struct sweep *sweep = context;
    const struct ps_slab *slab = (const struct ps_slab *)slot;
    /* acquire: pairs with ps_store_grow; makes constant fields visible. */
    if (ps_load_acquire(&slot->run.kind) != PS_RUN_SLAB) {
        return;
    }
    bool is_checked = ps_hard_is_on() || (sweep->is_alone && slab->is_zero != 0);
    if (!is_checked || !spend(sweep, (size_t)slab->capacity * ps_slab_class(slab)->block_bytes)) {
        return;
    }
    if (ps_hard_is_on()) {
        sweep_slab(slab);
    } else {
        sweep_free(slab);
    }
}

PS_AT_START void ps_hard_sweep(void) {
    if (PS_LIKELY(ps_hard_level == 0)) {
        return;
    }
    struct sweep sweep = {.bytes_left = SWEEP_BYTES, .is_alone = ps_background_threads() <= 1};
    ps_page_cache_walk(sweep_slot, &sweep);
    for (uint32_t i = 0; sweep.is_alone && !ps_hard_is_on() && i < ps_size_class_count; i++) {
        ps_front_visit(i, check_in_front);
    }
    ps_hard_large_sweep(sweep.bytes_left);
}
