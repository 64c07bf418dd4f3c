/* SPDX-License-Identifier: MIT */
/*
 * Lists of free blocks, out of line: for slow paths, for hardened blocks, and for spans of several
 * granules, whose links leave theirs. Called by the owner of the heap, ps_heap_is_free by any
 * thread. No locks.
 */
#include "pools/engine/heap/pop.h"

#include "pools/engine/heap/heap.h"
#include "pools/engine/small/misuse.h"

void *ps_heap_next(const struct ps_span *list, void *block) {
    void *next = ps_link_of(block, ps_load_relaxed(&list->salt)); /* relaxed: see link.h */
    if (PS_UNLIKELY(!ps_link_is_near(block, next) && !ps_span_leads_to(list, next))) {
        ps_misuse_link(block, list->block_bytes);
    }
    return next;
}

PS_NOINLINE void *ps_heap_pop(struct ps_span *source) {
    void *block = source->free;
    source->free = ps_heap_next(source, block);
    ps_link_clear(block);
    ps_counter_up(&source->popped);
    return block;
}

PS_NOINLINE void *ps_heap_pop_last(struct ps_span *source) {
    void *block = ps_heap_pop(source);
    ps_thread_leave();
    return block;
}

bool ps_heap_is_free(const struct ps_span *span, const void *block) {
    return ps_span_is_listed(span, block) || ps_span_is_unhanded(span, block);
}
