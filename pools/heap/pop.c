/* SPDX-License-Identifier: MIT */
/*
 * Pop, out of line: for the slow paths, for hardened blocks, and for the one list whose links lead
 * out of their slice, that of a class's recent blocks. Called by the owner of the heap. No locks.
 */
#include "pools/heap/heap.h"
#include "pools/heap/misuse.h"

/* Recent blocks may lie in any span of their heap and class. */
static bool leads_to_recent(const struct ps_span *list, const void *link) {
    if (list->reach != 0) {
        return false;
    }
    /* The end is that of a span that may have gone: the count tells whether it is the right one,
     * and a slice begins before it. */
    if (ps_link_is_end(link)) {
        return ((uintptr_t)link & (PS_SLICE_BYTES - 1)) == 1 &&
               (size_t)list->free_count + list->armed - list->needed - list->popped == 1;
    }
    const struct ps_span *inside = ps_span_at(link);
    /* relaxed, both: this heap's, if the link is good. */
    return ps_load_relaxed(&inside->x_owner) == ps_load_relaxed(&list->x_owner) &&
           ps_span_has_block(ps_span_of_inside((const struct ps_slot *)inside, link), link);
}

PS_NOINLINE void *ps_heap_pop(struct ps_span *source) {
    void *block = source->free;
    void *next = ps_link_of(block);
    if (!ps_link_is_near(block, next, source->reach) && !leads_to_recent(source, next)) {
        ps_misuse_link(block, source->block_bytes);
    }
    ps_link_clear(block);
    source->free = next;
    ps_counter_up(&source->popped);
    return block;
}
