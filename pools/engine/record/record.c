/* SPDX-License-Identifier: MIT */
/*
 * See record.h: the counting. This code runs for each malloc and free of a recorded program, so it
 * is written like fast_path.h: the usual case first, everything else out of line.
 */
#include "pools/engine/record/record.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/record/record_peak.h"
#include "pools/engine/record/record_sizes.h"

#include <errno.h>

#define GRAIN_LEAST ((uint64_t)1 << 10)
#define GRAIN_MOST ((uint64_t)64 << 10)
#define GRAIN_SHARE 8 /* a tally may withhold 1/256 of all live bytes */

bool ps_record_x_on;

static uint64_t x_live_bytes; /* as published */

bool ps_record_start(const struct ps_config *config) {
    ps_stray_start(config);
    ps_record_sizes_start();
    bool is_on = ps_record_peak_start();
    ps_store_relaxed(&ps_record_x_on, is_on); /* relaxed: see ps_record_is_on */
    return is_on;
}

struct ps_tally *ps_record_make(void) {
    size_t bytes = ps_round_up(sizeof(struct ps_tally), PS_GRANULE_BYTES);
    struct ps_tally *tally = ps_metadata_map(bytes);
    if (tally == NULL) {
        return NULL;
    }
    ps_huge_refuse(tally, bytes);
    tally->grain = tally->level = GRAIN_LEAST;
    tally->limit = 2 * GRAIN_LEAST;
    ps_record_peak_add(tally);
    return tally;
}

bool ps_record_make_state(void **state) {
    *state = ps_record_make();
    return *state != NULL;
}

/* ---- live bytes ---- */

static uint64_t add_live(uint64_t bytes) {
    return ps_add_relaxed(&x_live_bytes, bytes) + bytes; /* relaxed: a count */
}

static uint64_t publish(struct ps_tally *tally) {
    uint64_t total = add_live(tally->level - tally->grain);
    tally->grain = ps_min(ps_max(total >> GRAIN_SHARE, GRAIN_LEAST), GRAIN_MOST);
    tally->level = tally->grain;
    tally->limit = 2 * tally->grain;
    return total;
}

/* Sets the level at which the next free may take a snapshot. */
static void arm(struct ps_tally *tally, uint64_t total) {
    uint64_t threshold = ps_record_peak_threshold();
    tally->top = tally->grain + (threshold > total ? threshold - total : 0);
}

/* Publishes: the tally has risen or fallen by its grain. */
static PS_NOINLINE void drift(struct ps_tally *tally) {
    uint64_t total = publish(tally);
    ps_record_peak_check(total, false);
    arm(tally, total);
}

/* Publishes before a free, when live bytes may be at a new height. */
static PS_NOINLINE void at_top(struct ps_tally *tally) {
    uint64_t total = publish(tally);
    ps_record_peak_check(total, true);
    arm(tally, total);
}

static inline void rise(struct ps_tally *tally, uint64_t bytes) {
    tally->level += bytes;
    if (PS_UNLIKELY(tally->level >= tally->limit)) {
        drift(tally);
    }
}

/* Called before a free is counted. */
static inline void check_top(struct ps_tally *tally) {
    if (PS_UNLIKELY(tally->level >= tally->top)) {
        at_top(tally);
    }
}

static inline void fall(struct ps_tally *tally, uint64_t bytes) {
    if (PS_UNLIKELY(__builtin_sub_overflow(tally->level, bytes, &tally->level))) {
        drift(tally);
    }
}

/* ---- counting ---- */

static inline void count_made(struct ps_tally *tally, size_t number) {
    struct ps_record_count *count = &tally->sizes[number];
    if (PS_UNLIKELY(count->x_made == 0)) {
        ps_record_peak_first(number);
    }
    ps_owner_add(&count->x_made, 1);
    rise(tally, number << 4);
}

static inline void count_freed(struct ps_tally *tally, size_t number) {
    check_top(tally);
    ps_owner_add(&tally->sizes[number].x_freed, 1);
    fall(tally, number << 4);
}

/* The tally that counts the blocks of a span. A span that changes its owner at this moment counts
 * for either. */
static struct ps_tally *tally_of(const struct ps_span *span) {
    /* acquire: pairs with ps_span_set_owner; makes the tally of a new owner visible, whose heap may
     * have been made after this thread received the block. */
    uintptr_t key = ps_load_acquire(&span->x_owner);
    return key <= PS_KEY_ORPHAN ? ps_record_ended : ps_heap_of_key(key)->tally;
}

/* Counts remote frees on a tally that may be another thread's; negative: the reverse. */
static void count_remote_frees(struct ps_tally *tally, size_t number, int64_t blocks) {
    ps_add_relaxed(&tally->x_remote_frees[number], (uint64_t)blocks); /* relaxed: a count */
}

static void change_live(struct ps_tally *own, int64_t bytes) {
    if (own == NULL) {
        (void)add_live((uint64_t)bytes);
    } else if (bytes >= 0) {
        rise(own, (uint64_t)bytes);
    } else {
        fall(own, (uint64_t)-bytes);
    }
}

static struct ps_tally *own_tally(void) {
    return ps_thread.own != NULL ? ps_thread.own->tally : NULL;
}

static inline void note(struct ps_tally *tally, const void *block, size_t bytes,
                        uint32_t class_index) {
    size_t number = ps_record_mark(block, class_index, ps_record_number_of(bytes));
    if (PS_LIKELY(number != 0)) {
        count_made(tally, number);
    }
}

/* ---- malloc ---- */

static void *count_large_made(void *block);

/* Counts a block of the slow path. It may be longer than one of the class: exhausted.h. */
static void note_any(struct ps_tally *tally, void *block, size_t bytes) {
    const struct ps_span *span = ps_span_holding(ps_page_map_slot(block), block);
    if (PS_LIKELY(span != NULL)) {
        note(tally, block, bytes, span->class_index);
    } else {
        (void)count_large_made(block);
    }
}

/* Counts a block above the size classes. NULL: no block was allocated; counts nothing. */
static void *count_large_made(void *block) {
    if (block == NULL) {
        return NULL;
    }
    size_t bytes = ps_large_usable(ps_page_map_slot(block), block);
    struct ps_tally *own = own_tally();
    if (own != NULL) {
        ps_owner_add(&own->x_large, 1);
        ps_owner_add(&own->x_large_bytes, bytes);
    }
    ps_record_peak_large(1, (int64_t)bytes);
    change_live(own, (int64_t)bytes);
    return block;
}

static void tick(struct ps_heap *heap) {
    if (heap != NULL) {
        ps_heap_tick(heap);
    }
}

static PS_NOINLINE void *alloc_large(struct ps_heap *heap, size_t bytes) {
    tick(heap);
    return count_large_made(ps_large_alloc(bytes, 1, NULL));
}

/* The slow path of ps_record_alloc. */
static PS_NOINLINE void *alloc_any(struct ps_heap *heap, size_t bytes, uint32_t class_index) {
    void *block = ps_heap_take(heap, class_index, bytes);
    if (PS_LIKELY(block != NULL)) {
        note_any(heap->tally, block, bytes);
    }
    return block;
}

static PS_NOINLINE void *count_and_check(struct ps_tally *tally, void *block, size_t number) {
    count_made(tally, number);
    return block;
}

static inline void *counted(struct ps_tally *tally, void *block, size_t number) {
    struct ps_record_count *count = &tally->sizes[number];
    uint64_t level = tally->level + (number << 4);
    if (PS_UNLIKELY(count->x_made == 0 || level >= tally->limit)) {
        return count_and_check(tally, block, number);
    }
    tally->level = level;
    ps_owner_add(&count->x_made, 1);
    return block;
}

static PS_NOINLINE void *note_mark(struct ps_tally *tally, void *block, size_t bytes,
                                   uint32_t class_index) {
    size_t number = ps_record_mark(block, class_index, ps_record_number_of(bytes));
    return PS_LIKELY(number != 0) ? counted(tally, block, number) : block;
}

/* Unusual cases leave by tail calls, so that the usual case needs no stack frame. */
void *ps_record_alloc(struct ps_heap *heap, size_t bytes) {
    if (PS_UNLIKELY(bytes > ps_size_class_max_bytes)) {
        return alloc_large(heap, bytes);
    }
    uint32_t class_index = ps_size_class_of(bytes);
    struct ps_span *source = heap->current[class_index];
    void *block = source->free;
    if (!ps_link_is_end(block)) {
        void *next = ps_link_of(block, source->salt);
        if (PS_UNLIKELY(!ps_link_is_near(block, next))) {
            return alloc_any(heap, bytes, class_index);
        }
        ps_link_clear(block);
        source->free = next;
        ps_counter_up(&source->popped);
    } else {
        block = ps_bin_move(&heap->bins[class_index], source);
        if (PS_UNLIKELY(block == NULL)) {
            return alloc_any(heap, bytes, class_index);
        }
    }
    struct ps_tally *tally = heap->tally;
    size_t number = ps_record_kinds[class_index].number;
    if (number == 0) {
        return note_mark(tally, block, bytes, class_index);
    }
    return counted(tally, block, number);
}

void *ps_record_zalloc(struct ps_heap *heap, size_t bytes) {
    if (bytes > ps_size_class_max_bytes) {
        tick(heap);
        return count_large_made(ps_large_zalloc(bytes));
    }
    uint32_t class_index = ps_size_class_of(bytes);
    struct ps_bin *bin = &heap->bins[class_index];
    struct ps_span *source = heap->current[class_index];
    if (bin->is_zero && ps_link_is_end(source->free) && bin->cur != bin->end) {
        void *fresh = ps_bin_move(bin, source);
        note(heap->tally, fresh, bytes, class_index);
        return fresh;
    }
    void *block = ps_record_alloc(heap, bytes);
    return block != NULL ? ps_bytes_zero_block(block, bytes) : NULL;
}

/* Counts as a request of its size rounded up to the alignment: no smaller block can serve it. */
void *ps_record_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align) {
    size_t wanted = ps_round_up(ps_max(bytes, 1), align);
    uint32_t class_index =
        wanted < bytes ? PS_CLASS_NONE : ps_size_class_of_aligned(ps_max(bytes, 1), align);
    if (class_index == PS_CLASS_NONE) {
        return count_large_made(ps_large_alloc(bytes, align, NULL));
    }
    void *block = ps_heap_take(heap, class_index, heap->bins[class_index].block_bytes);
    if (block != NULL) {
        note_any(heap->tally, block, wanted);
    }
    return block;
}

/* ---- free ---- */

/* Counts a free of a block whose span has another owner, or several granules. */
static void count_remote(struct ps_tally *own, const struct ps_span *span, const void *block) {
    size_t number = ps_record_marked(block, span->class_index);
    if (own != NULL) {
        check_top(own);
    }
    count_remote_frees(tally_of(span), number, 1);
    change_live(own, -(int64_t)(number << 4));
}

static void count_large(struct ps_tally *own, const struct ps_slot *slot, const void *block) {
    int64_t bytes = (int64_t)ps_large_usable(slot, block);
    if (own != NULL) {
        check_top(own);
    }
    ps_record_peak_large(-1, -bytes);
    change_live(own, -bytes);
}

static PS_NOINLINE void free_other(struct ps_slot *slot, void *block) {
    struct ps_tally *own = own_tally();
    /* relaxed: set before the block was allocated. */
    uint8_t kind = ps_load_relaxed(&slot->run.kind);
    if (kind == PS_RUN_SPAN) {
        count_remote(own, ps_span_of_slot(slot), block);
    } else if (kind == PS_RUN_INSIDE) {
        count_remote(own, ps_span_of_inside(slot, block), block);
    } else if (ps_block_is_large(slot, block)) {
        count_large(own, slot, block);
    }
    ps_plain_free((struct ps_span *)slot, block, PS_KEY_NONE);
}

/* Frees a block of this thread when a snapshot or a publication is due. */
static PS_NOINLINE void free_and_check(struct ps_span *span, void *block) {
    count_freed(ps_thread.own->tally, ps_record_marked(block, span->class_index));
    ps_span_free(span, block);
}

void ps_record_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    struct ps_heap *heap = ps_thread.own;
    if (PS_UNLIKELY(owner_key != ps_heap_key(heap))) { /* NO_SPAN key: matches no span */
        free_other((struct ps_slot *)span, block);
        return;
    }
    struct ps_tally *tally = heap->tally;
    size_t number = ps_record_marked(block, span->class_index);
    uint64_t level = tally->level;
    if (PS_UNLIKELY(level >= tally->top || level < number << 4)) {
        free_and_check(span, block);
        return;
    }
    tally->level = level - (number << 4);
    ps_owner_add(&tally->sizes[number].x_freed, 1);
    ps_span_free(span, block);
}

/* ---- realloc ---- */

/* Counts a resize in place. A block that has shrunk counts as before: it does not move, and would
 * not with other classes. */
static void count_resized(const struct ps_span *span, void *block, size_t bytes) {
    struct ps_tally *own = own_tally();
    size_t number = ps_record_number_of(bytes);
    size_t old_number = ps_record_marked(block, span->class_index);
    ps_record_peak_first(number);
    if (own != NULL) { /* an allocation and a free at once: the block's owner does not change */
        ps_owner_add(&own->sizes[number].x_made, 1);
        ps_owner_add(&own->sizes[number].x_freed, 1);
    }
    if (number > old_number && old_number != 0) {
        struct ps_tally *owner = tally_of(span);
        (void)ps_record_mark(block, span->class_index, number); /* the table exists */
        count_remote_frees(owner, old_number, 1);
        count_remote_frees(owner, number, -1);
        change_live(own, (int64_t)(number - old_number) * 16);
    }
}

static void count_large_resized(size_t old_bytes, size_t bytes) {
    struct ps_tally *own = own_tally();
    int64_t change = (int64_t)bytes - (int64_t)old_bytes;
    if (own != NULL && change < 0) {
        check_top(own);
    }
    ps_record_peak_large(0, change);
    change_live(own, change);
}

static void *resize_large(struct ps_slot *slot, void *block, size_t bytes) {
    if (!ps_block_is_large(slot, block)) {
        return ps_resize_large(slot, block, bytes);
    }
    size_t old_bytes = ps_large_usable(slot, block);
    void *resized = ps_resize_in_place(slot, block, bytes);
    if (resized == NULL) {
        return ps_resize_large(slot, block, bytes);
    }
    count_large_resized(old_bytes, ps_large_usable(ps_page_map_slot(resized), resized));
    return resized;
}

void *ps_record_resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        return resize_large(slot, block, bytes);
    }
    void *resized = ps_plain_resize(block, bytes);
    if (resized == block) {
        count_resized(span, block, bytes);
    }
    return resized;
}

/* ---- threads ---- */

static uint32_t x_threads;

void ps_record_begin(struct ps_heap *heap) {
    if (heap->tally->x_thread == 0) {
        /* relaxed, both: a number; snapshots may read it slightly later. */
        ps_store_relaxed(&heap->tally->x_thread, ps_add_relaxed(&x_threads, 1u) + 1);
    }
}

void ps_record_end(struct ps_heap *heap) {
    (void)publish(heap->tally);
    heap->tally->top = 0;
    ps_record_peak_fold(heap->tally);
    /* All zero now, and no other thread writes there: so the tallies of ended threads are not
     * resident. */
    size_t page_bytes = ps_os_page_bytes();
    size_t end = ps_round_down(offsetof(struct ps_tally, x_remote_frees), page_bytes);
    if (end > page_bytes) {
        (void)ps_os_purge((char *)heap->tally + page_bytes, end - page_bytes);
    }
}
