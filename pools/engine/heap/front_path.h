/* SPDX-License-Identifier: MIT */
/*
 * The fast path, in the order of a pointer's life.
 *
 * malloc(n): one load finds the class of n. malloc pops the newest block of the class from the
 * thread's front (front.h), whose line is probably still in the processor's cache. If the front has
 * none, it takes the next block of the thread's window (window.h), a range of blocks that no
 * thread has used. No atomic instruction, no lock. One comparison, with a word of the thread,
 * recognises requests above 1 KiB, and threads that may not take the path. A countdown of bytes
 * brings about what is to be done now and then: it reads the clock, and it draws samples.
 *
 * free(p): if p continues this thread's free streak, free lengthens the streak by one, and returns.
 * Otherwise the tag of p's granule tells the class, for any address, and free pushes p on the
 * thread's front. Neither reads a word of the slab, whichever thread allocated the block. Every
 * other case - NULL, a block above the classes or of a slab of several granules, a foreign pointer
 * - has the tag 0.
 *
 * These checks detect misuse: a free of an address where no block of the class can start, a second
 * free while the block is in a front or the store, and a write to a block in a front. The store
 * finds all other second frees when the block reaches it.
 *
 * A free streak is a sequence of frees of adjacent blocks of one slab, upwards or downwards. Each
 * costs a comparison and an addition, and touches neither the block nor the slab. A streak opens
 * when a front is full and its newest three blocks are adjacent; its blocks return to the store
 * when another one opens, now and then (ps_maintenance_tick), and when the thread ends.
 *
 * In a mode that must see each malloc no thread has a fast_limit; where it must see each free, no
 * granule has a tag: heap/mode.h.
 *
 * Slow paths: front_path.c, front_path_plain.c. Callers: the entry points of shim/, C++ operator
 * new and delete among them, and slow paths.
 */
#ifndef PS_HEAP_FRONT_PATH_H
#define PS_HEAP_FRONT_PATH_H

#include "pools/engine/heap/front_thread.h"
#include "pools/engine/small/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- slow paths ---- */

/* A request for which the fast path has no block, or that may not take it. */
void *ps_front_alloc_slow(size_t bytes);
void *ps_front_refill(size_t class_index, size_t bytes);

/* For a thread that has neither a front of its own nor sequences. */
void *ps_front_alloc_locked(size_t class_index, size_t bytes);
void ps_front_free_locked(size_t class_index, void *block);

/* left_bytes is below 0. Serves the request. */
void *ps_front_event(size_t bytes);

/* The front is full, or this is no block of a slab of one granule. */
void ps_front_free_full(size_t class_index, void *block);
void ps_front_free_other(void *block);

/* The plain mode's entry points, for modes: any size; any address. The calling thread may serve
 * itself (ps_engine_may_serve). */
void *ps_front_alloc_plain(size_t bytes);
void *ps_front_zalloc_plain(size_t bytes);
void *ps_front_alloc_aligned_plain(size_t bytes, size_t align);
void ps_front_free_plain(void *block);
void ps_front_free_of_slab(struct ps_slab *slab, void *block); /* an address in it */
void *ps_front_resize_plain(void *block, size_t bytes);
size_t ps_front_usable_plain(const void *block);
size_t ps_front_resize_in_place(void *block, size_t bytes);

/* Parts of ps_front_refill, for modes. The first notes how much of a block a request leaves unused;
 * the second does what is due before the store is asked: it notes the request, ticks, and lets the
 * front have more blocks. The third adds a slab of the class, within the limit; false when memory
 * is exhausted. */
void ps_front_note_request(size_t class_index, size_t bytes);
void ps_front_begin_refill(size_t class_index, size_t bytes);
bool ps_front_grow(size_t class_index);

/* left_bytes is below 0: counts the requests since the last event, and ticks. Returns whether a
 * sample is due. */
bool ps_front_count_event(void);

/* Counts a block above the classes that was just allocated, or resized in place, and samples it if
 * a sample is due. Returns it. block: may be NULL. */
void *ps_front_count_large(void *block, size_t bytes);

/* The address is that of no block that can be freed. */
void ps_front_free_misused(const void *block); /* not NORETURN: a tail call */

/* A block of a class whose blocks are so aligned; NULL: there is no such class, or memory is
 * exhausted, errno ENOMEM. */
void *ps_front_alloc_aligned(size_t bytes, size_t align);

/* Usable bytes of a live block of a slab; 0: the address lies in none. Reports misuse. */
size_t ps_front_usable(const void *block, enum ps_misuse_call call);

/* By class: the mean share of a block that requests leave unused, of 65536. Read from outside the
 * process, too. */
extern PS_HIDDEN uint16_t ps_front_x_rounding[PS_CLASS_LIMIT];
uint64_t ps_front_rounding(uint32_t class_index);

/* ---- alloc ---- */

/* Reports it. Not NORETURN: a tail call. */
void *ps_front_overwritten(const void *block);

/* A block that leaves a front. */
PS_INLINE void *ps_front_unmark(void *block) {
    if (PS_UNLIKELY(!ps_mark_is_set(block))) {
        return ps_front_overwritten(block);
    }
    ps_mark_clear(block);
    return block;
}

/* From the thread's window. */
PS_INLINE void *ps_front_alloc_fresh(size_t class_index, size_t bytes) {
    ps_range *window = &ps_front_thread.windows->x_ranges[class_index];
    ps_range range = *window;
    if (PS_UNLIKELY(ps_range_count(range) == 0)) {
        return ps_front_refill(class_index, bytes);
    }
    /* relaxed: this thread's; others read a snapshot. */
    ps_store_relaxed(window,
                     ps_range_without_lowest(range, ps_size_classes[class_index].block_bytes));
    void *block = ps_range_lowest(range);
    ps_mark_clear(block); /* it is marked: front_path.c */
    return block;
}

/* Calls of other functions are tail calls, so that no register is saved. */
PS_INLINE void *ps_front_alloc_class(size_t class_index, size_t bytes) {
    const struct ps_front_table *table = ps_front_table_base();
    struct ps_front *own = ps_front_thread.own;
    void *block;
    if (PS_LIKELY(own != NULL)) {
        block = ps_front_pop_own(own, table, class_index);
    } else if (PS_HAS_RSEQ && PS_LIKELY(table->has_sequences)) {
        block = ps_front_pop_here(table, class_index);
    } else {
        return ps_front_alloc_locked(class_index, bytes);
    }
    return PS_LIKELY(block != NULL) ? ps_front_unmark(block)
                                    : ps_front_alloc_fresh(class_index, bytes);
}

/* True if a request is to be passed to ps_front_alloc_slow. */
PS_INLINE bool ps_heap_is_slow(size_t bytes) { return bytes >= ps_front_thread.fast_limit; }

/* Serves another one. */
PS_INLINE void *ps_heap_alloc_few(size_t bytes) {
    ps_front_thread.left_bytes -= (int64_t)bytes;
    if (PS_UNLIKELY(ps_front_thread.left_bytes < 0)) {
        return ps_front_event(bytes);
    }
    return ps_front_alloc_class(ps_size_class_of_few(bytes), bytes);
}

PS_INLINE void *ps_heap_alloc(size_t bytes) {
    return PS_UNLIKELY(ps_heap_is_slow(bytes)) ? ps_front_alloc_slow(bytes)
                                               : ps_heap_alloc_few(bytes);
}

/* ---- free ---- */

/* True if a block of the slab starts at this address, and may be out. The scaled index of a block
 * has PS_SLAB_TAG_BITS zeroes, and is higher for any other address: so the tag is compared whole.
 */
PS_INLINE bool ps_front_starts(const struct ps_front_table *table, size_t class_index, uint32_t tag,
                               const void *block) {
    uint32_t scaled = (uint16_t)(uintptr_t)block * table->factor[class_index];
    return scaled - table->scaled_first[class_index] <= tag;
}

/* Puts a free block into the thread's front, or where a full one leaves it. */
PS_INLINE void ps_front_put(const struct ps_front_table *table, size_t class_index, void *block) {
    struct ps_front *own = ps_front_thread.own;
    bool is_in;
    if (PS_LIKELY(own != NULL)) {
        is_in = ps_front_push_own(own, table, class_index, block);
    } else if (PS_HAS_RSEQ && PS_LIKELY(table->has_sequences)) {
        is_in = ps_front_push_here(table, class_index, block);
    } else {
        ps_front_free_locked(class_index, block);
        return;
    }
    if (PS_UNLIKELY(!is_in)) {
        ps_front_free_full(class_index, block);
    }
}

PS_INLINE void ps_front_free_class(const struct ps_front_table *table, size_t class_index,
                                   void *block) {
    if (PS_UNLIKELY(ps_mark_is_set(block))) {
        ps_front_free_misused(block);
        return;
    }
    ps_mark_set(block); /* first: another thread may take it at once */
    ps_front_put(table, class_index, block);
}

PS_INLINE void ps_heap_free(void *block) {
    if (PS_LIKELY((char *)block == ps_front_thread.streak_next)) {
        ps_front_thread.streak_next = (char *)block + ps_front_thread.streak_step;
        return;
    }
    uint32_t tag = ps_page_map_tag(block);
    if (PS_UNLIKELY(tag == 0)) {
        ps_front_free_other(block);
        return;
    }
    const struct ps_front_table *table = ps_front_table_base();
    size_t class_index = (size_t)(uint8_t)tag - 1;
    if (PS_UNLIKELY(!ps_front_starts(table, class_index, tag, block))) {
        ps_front_free_misused(block);
        return;
    }
    ps_front_free_class(table, class_index, block);
}

#endif
