/* SPDX-License-Identifier: MIT */
/*
 * LIFO caches: in classes above 4 KiB the newest blocks that a thread frees are kept in a list of
 * its heap, last in, first out, from which malloc takes first. A span of such a class has few
 * blocks, and those on the list of the current span were usually freed long ago: their lines and
 * translations have left the caches, while those of the newest block are still present. Neither
 * malloc nor free touches the span then.
 *
 * The list is line 0 of a span without blocks, so that malloc and free treat it like any span's.
 * The blocks' spans count them as used. Blocks return to their spans when there are too many,
 * periodically, and when the bin is emptied. Called by the owner of the heap only. No locks. (The
 * idea is the thread cache of tcmalloc and jemalloc, used only for the sizes where it pays.)
 */
#include "pools/engine/heap/lifo.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/pop.h"
#include "pools/engine/heap/refill.h"

/* The span of a cached block. */
static struct ps_span *span_of(void *block) {
    return ps_span_of_inside(ps_page_map_slot(block), block);
}

/* Returns the `blocks` newest blocks of a list, in groups of one span, relinked with the salt of
 * that span. */
static void send_home(struct ps_heap *heap, struct ps_span *list, size_t blocks) {
    void *block = list->free;
    while (blocks > 0) {
        struct ps_span *span = span_of(block);
        void *head = block;
        void *tail = block;
        size_t count = 0;
        do {
            tail = block;
            block = ps_heap_next(list, tail);
            ps_link_write(tail, block, span->salt);
            count++;
        } while (count < blocks && span_of(block) == span);
        blocks -= count;
        list->free = block;
        ps_span_settle(span);
        ps_span_give_list(span, head, tail, count);
        ps_heap_span_gained(heap, span);
    }
}

static void arm(struct ps_span *list, size_t frees) {
    list->countdown_start = (uint16_t)frees;
    list->free_countdown = (uint16_t)frees;
}

/* Counts frees and pops since the last time. */
static void settle(struct ps_span *list) {
    list->free_count =
        (uint16_t)(list->free_count + list->countdown_start - list->free_countdown - list->popped);
    list->countdown_start = list->free_countdown;
    list->popped = 0;
}

bool ps_lifo_start(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *list = &heap->lifo[class_index];
    const struct ps_size_class *class = &ps_size_classes[class_index];
    if (class->has_lifo && heap->sources[class_index] != list) {
        arm(list, class->lifo_limit);
        list->free = PS_LINK_END;
        list->salt = ps_link_new_salt();
        list->block_bytes = class->block_bytes;
        ps_store_relaxed(&list->x_owner, ps_heap_key_of(heap, class_index)); /* relaxed: ours */
        heap->sources[class_index] = list;
    }
    return class->has_lifo;
}

size_t ps_lifo_count(const struct ps_heap *heap, uint32_t class_index) {
    const struct ps_span *list = &heap->lifo[class_index];
    return (size_t)list->free_count + list->countdown_start - list->free_countdown - list->popped;
}

/* Returns the newest blocks, whose lines are cached, until `kept` are left. */
static void shorten(struct ps_heap *heap, uint32_t class_index, size_t kept) {
    struct ps_span *list = &heap->lifo[class_index];
    settle(list);
    size_t blocks = list->free_count - ps_min(list->free_count, kept);
    list->free_count = (uint16_t)(list->free_count - blocks);
    arm(list, ps_size_classes[class_index].lifo_limit - list->free_count);
    send_home(heap, list, blocks);
}

/* As many frees have occurred as there was room for; but blocks may have been popped meanwhile. */
PS_NOINLINE void ps_lifo_event(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *list = &heap->lifo[class_index];
    size_t limit = ps_size_classes[class_index].lifo_limit;
    int64_t popped = list->popped;
    settle(list);
    if (list->free_count < limit) {
        arm(list, limit - list->free_count);
    } else {
        shorten(heap, class_index, limit / 2);
    }
    if (PS_UNLIKELY(ps_mode.hook.count_pops != NULL)) {
        ps_mode.hook.count_pops(heap, class_index, popped);
    }
    ps_heap_tick(heap);
}

void ps_lifo_take(struct ps_heap *heap, struct ps_span *span) {
    struct ps_span *list = &heap->lifo[span->class_index];
    settle(list);
    list->free = ps_link_is_end(span->free) ? PS_LINK_END : span->free;
    for (void *block = list->free, *next; block != PS_LINK_END; block = next) {
        next = ps_heap_next(span, block); /* ends with the blocks of a span */
        next = ps_link_is_end(next) ? PS_LINK_END : next;
        ps_link_write(block, next, list->salt);
    }
    list->free_count = span->free_count;
    size_t limit = ps_size_classes[span->class_index].lifo_limit;
    arm(list, ps_max(limit - ps_min(limit, list->free_count), 1));
    span->free = ps_span_list_end(span);
    ps_owner_add(&span->used, span->free_count);
    span->free_count = 0;
    ps_span_settle(span);
}

void ps_lifo_flush(struct ps_heap *heap, uint32_t class_index) {
    if (heap->sources[class_index] == &heap->lifo[class_index]) {
        shorten(heap, class_index, 0);
    }
}

void ps_lifo_flush_all(struct ps_heap *heap) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_lifo_flush(heap, i);
    }
}
