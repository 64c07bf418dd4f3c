/* SPDX-License-Identifier: MIT */
/*
 * Lists of free blocks, out of line: for slow paths, for hardened blocks, and for the one list
 * whose links leave their granule, a class's LIFO cache. Called by the owner of the heap,
 * ps_heap_is_free by any thread. No locks.
 */
#include "pools/engine/heap/pop.h"

#include "pools/engine/heap/heap.h"
#include "pools/engine/small/misuse.h"

/* True when a link is valid for a LIFO cache, whose blocks may lie in any span of their heap and
 * class. */
static bool leads_to_lifo(const struct ps_span *list, const void *link) {
    if (ps_link_is_end(link)) {
        return link == PS_LINK_END;
    }
    const struct ps_span *inside = ps_span_at(link);
    /* relaxed, both: this heap's, if the link is valid. */
    return ps_load_relaxed(&inside->x_owner) == ps_load_relaxed(&list->x_owner) &&
           ps_span_has_block(ps_span_of_inside((const struct ps_slot *)inside, link), link);
}

/* The list of a LIFO cache is a span without granules. */
static bool leads_on(const struct ps_span *list, const void *link) {
    return list->run.granules == 0 ? leads_to_lifo(list, link) : ps_span_leads_to(list, link);
}

void *ps_heap_next(const struct ps_span *list, void *block) {
    void *next = ps_link_of(block, ps_load_relaxed(&list->salt)); /* relaxed: see link.h */
    if (PS_UNLIKELY(!ps_link_is_near(block, next) && !leads_on(list, next))) {
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

/* For a class with a LIFO cache, in a span of this heap. */
static bool is_free_lifo(const struct ps_heap *heap, const struct ps_span *span,
                         const void *block) {
    const struct ps_span *list = &heap->lifo[span->class_index];
    const struct ps_bin *bin = &heap->bins[span->class_index];
    bool is_in_window = (const char *)block >= bin->cur && (const char *)block < bin->end;
    return is_in_window || ps_span_index(span, block) >= span->carved ||
           leads_to_lifo(list, ps_link_of(block, list->salt));
}

bool ps_heap_is_free(const struct ps_span *span, const void *block) {
    const struct ps_heap *heap = ps_thread_own();
    if (ps_span_is_listed(span, block)) {
        return true;
    }
    if (!ps_size_classes[span->class_index].has_lifo) {
        return ps_span_is_unhanded(span, block);
    }
    return heap != NULL && ps_heap_owns(heap, span) && is_free_lifo(heap, span, block);
}
