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
    const struct ps_span *inside = ps_span_at(link);
    /* relaxed, both: this heap's, if the link is good. */
    if (ps_load_relaxed(&inside->x_owner) != ps_load_relaxed(&list->x_owner)) {
        return link == PS_LINK_END;
    }
    const struct ps_span *span = ps_span_of_inside((const struct ps_slot *)inside, link);
    return ps_span_has_block(span, link) || link == ps_span_list_end(span);
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
