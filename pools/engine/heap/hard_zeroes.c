/* SPDX-License-Identifier: MIT */
/*
 * Level 1 of hard.h: a block is zeroed when it is freed, in the freeing thread. This is free's path
 * for blocks of the thread's own spans; those of others go through alloc.c, hot runs are zeroed by
 * run.c. Called from alloc.c by the owner of the heap. No locks.
 *
 * The tests are those of the fast path, and one more: a block of the open hot run has no link that
 * would tell that it is free, and the run must not come to a block that is.
 */
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/hard.h"

/* A block in the span of this thread's hot run: it may be one of the run's, or one that the run
 * would come to. */
static void leave_run(struct ps_heap *heap, const struct ps_span *span, const char *block) {
    ptrdiff_t distance = block - heap->run_first;
    ptrdiff_t length = ps_thread.run_next - heap->run_first;
    bool is_in_run =
        length > 0 ? (size_t)distance < (size_t)length : (size_t)-distance < (size_t)-length;
    if (PS_UNLIKELY(is_in_run)) {
        ps_misuse_free(span, block);
    }
    ps_run_close(heap);
}

static void check(const struct ps_span *span, const void *block) {
    if (!ps_span_has_block(span, block) || ps_heap_is_free(span, block)) {
        ps_misuse_free(span, block);
    }
}

/* What the fast path's tests say nothing against. */
static PS_NOINLINE void free_in(struct ps_span *span, void *block) {
    ps_wipe(block, span->block_bytes);
    if (PS_UNLIKELY(ps_heap_push(span, block))) {
        ps_heap_free_event(span, block);
    }
}

static PS_COLD void free_doubtful(struct ps_span *span, void *block) {
    check(span, block);
    free_in(span, block);
}

static PS_COLD void free_beside_run(struct ps_heap *heap, struct ps_span *span, void *block) {
    leave_run(heap, span, block);
    free_in(span, block);
}

/* What lies in no span of one slice of this heap; a block of a class with recent blocks, too. */
static PS_NOINLINE void free_other(struct ps_heap *heap, struct ps_slot *slot, void *block,
                                   size_t class_index) {
    if (PS_LIKELY(class_index < PS_CLASS_LIMIT)) {
        const struct ps_span *span = ps_span_of_inside(slot, block);
        check(span, block);
        ps_wipe(block, span->block_bytes);
        if (PS_UNLIKELY(ps_heap_push(&heap->recent[class_index], block))) {
            ps_recent_event(heap, (uint32_t)class_index);
        }
    } else if (block != NULL) {
        ps_heap_free_others(slot, block);
    }
}

/* All calls are the last thing it does: so it saves no register, a tenth of its instructions. */
void ps_hard_free_own(struct ps_heap *heap, struct ps_span *span, void *block,
                      uintptr_t owner_key) {
    if (PS_UNLIKELY(owner_key != ps_heap_key(heap))) {
        free_other(heap, (struct ps_slot *)span, block,
                   owner_key - (uintptr_t)heap - PS_KEY_RECENT);
        return;
    }
    if (PS_UNLIKELY(!ps_span_expects(span, block))) {
        free_doubtful(span, block);
        return;
    }
    if (PS_UNLIKELY(heap->run_span == span)) {
        free_beside_run(heap, span, block);
        return;
    }
    size_t bytes = span->block_bytes;
    if (PS_UNLIKELY(bytes > PS_WIPE_INLINE_BYTES)) {
        free_in(span, block);
        return;
    }
    ps_wipe(block, bytes);
    if (PS_UNLIKELY(ps_heap_push(span, block))) {
        ps_heap_free_event(span, block);
    }
}
