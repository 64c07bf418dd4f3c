/* SPDX-License-Identifier: MIT */
/*
 * Replaces the layers around heaps in models of pools/engine/heap: the plain mode, without a clock.
 */
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/rseq.h"

static void reclaims_nothing(void) {}

struct ps_mode ps_mode = {
    .entry = {.alloc = ps_plain_alloc, .free_block = ps_plain_free},
    .hook = {.has_fast_alloc = true,
             .has_fast_free = true,
             .make_state = ps_mode_makes_no_state,
             .thread_start = ps_mode_ignores_heap,
             .thread_end = ps_mode_ignores_heap,
             .refill = ps_plain_refill,
             .take = ps_plain_take,
             .return_streak = ps_plain_return_streak,
             .flush_class = ps_mode_ignores_class,
             .reclaim = reclaims_nothing},
};

bool ps_mode_makes_no_state(void **state) {
    *state = NULL;
    return true;
}

void ps_mode_ignores_heap(struct ps_heap *heap) { (void)heap; }

void ps_mode_ignores_class(struct ps_heap *heap, uint32_t class_index) {
    (void)heap, (void)class_index;
}

/* There is one class. */
void *ps_exhausted_take_longer(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    (void)heap, (void)class_index, (void)bytes;
    return NULL;
}

void *ps_exhausted_take_any(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    heap->is_exhausted = true;
    void *block = ps_class_take(heap, class_index);
    block = block != NULL ? block : ps_plain_refill(heap, &heap->bins[class_index], bytes);
    heap->is_exhausted = false;
    return block;
}

void *ps_exhausted_note(void *block) { return block; }

ptrdiff_t ps_rseq_offset;

size_t ps_background_share(size_t of_a_cpu) { return of_a_cpu; }

uint32_t ps_os_cpu(void) { return 0; }

void ps_heap_tick(struct ps_heap *heap) { (void)heap; }

void ps_heap_tick_now(struct ps_heap *heap) { (void)heap; }

void ps_heap_tick_after_free(struct ps_heap *heap) { (void)heap; }

size_t ps_alloc_x_refill_max __attribute__((weak)); /* a model of slow_path.c has its own */
