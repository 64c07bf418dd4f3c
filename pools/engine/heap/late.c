/* SPDX-License-Identifier: MIT */
/*
 * See late.h. Lock: late_lock, protects the shared heap.
 */
#include "pools/engine/heap/late.h"

#include "pools/engine/heap/blocks.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/heap/record.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/small/span_remote.h"

#include <errno.h>

PS_UNDO_LOG(late_undo, 1);
static struct ps_lock late_lock = PS_LOCK_INIT_UNDO(PS_RANK_LATE, &late_undo);
static struct ps_heap *late_heap;

static void *alloc_locked(size_t bytes) {
    if (late_heap == NULL) {
        late_heap = ps_heap_make();
        if (late_heap == NULL) {
            errno = ENOMEM;
            return NULL;
        }
        ps_store_relaxed(&late_heap->x_state, (uint32_t)PS_HEAP_SHARED); /* relaxed: fork, census */
    }
    if (ps_hard_is_on()) {
        return ps_hard_alloc(late_heap, ps_hard_class_of(bytes), bytes, bytes);
    }
    struct ps_bin *bin = &late_heap->bins[ps_size_class_of(bytes)];
    void *block = ps_heap_take(late_heap, bin, bytes);
    if (PS_UNLIKELY(ps_record_is_on())) {
        ps_record_late(late_heap, block, bytes);
    }
    return block;
}

PS_COLD void *ps_late_alloc(size_t bytes) {
    if (bytes > PS_CLASS_BYTES_LIMIT - ps_hard_extra_bytes) {
        void *block = ps_large_alloc(bytes, 1, NULL);
        return PS_UNLIKELY(ps_record_is_on()) ? ps_record_large(block) : block;
    }
    ps_lock_acquire(&late_lock);
    /* A heap in the middle of anything cannot be taken back: the child of a fork makes another. */
    ps_undo_set(&late_undo, &late_heap, (uintptr_t)NULL);
    void *block = alloc_locked(bytes);
    ps_lock_release(&late_lock);
    return block;
}

PS_COLD void ps_late_free(struct ps_span *span, void *block) {
    ps_remote_handed(span, ps_span_hand_list(span, block, block, 1));
}

const struct ps_heap *ps_late_fork_child(void) {
    ps_lock_fork_child(&late_lock);
    return late_heap;
}
