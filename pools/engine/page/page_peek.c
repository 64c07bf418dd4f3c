/* SPDX-License-Identifier: MIT */
/*
 * See page_peek.h.
 */
#include "pools/engine/page/page_peek.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/arena.h"

/* relaxed, all loads of this file: see the header's comment. */

static size_t arena_count(void) { return ps_load_relaxed(&ps_page_arena_x_count); }

void ps_page_peek(void (*visit)(struct ps_slot *slot, void *context), void *context) {
    for (size_t index = 0; index < arena_count(); index++) {
        const struct ps_page_arena *arena = ps_page_arena_at(index);
        char *end = arena->base + (ps_load_relaxed(&arena->granules) << PS_GRANULE_SHIFT);
        /* A free run may extend into the adjacent arena above, which then starts inside of a run,
         * where slots are empty except the last, `back` granules from its head. */
        for (char *base = arena->base; base < end;) {
            struct ps_slot *slot = ps_page_map_slot(base);
            /* acquire: pairs with code that divides a busy run without the lock (pages/). */
            uint8_t kind = ps_load_acquire(&slot->run.kind);
            bool is_head = kind != PS_RUN_NONE && kind != PS_RUN_INSIDE &&
                           ps_load_relaxed(&slot->run.back) == 0;
            if (is_head) {
                visit(slot, context);
            }
            bool is_run = is_head && kind != PS_RUN_MEDIUM; /* a region may have lent granules */
            size_t granules = is_run ? ps_load_relaxed(&slot->run.granules) : 1;
            base += ps_max(granules, 1) << PS_GRANULE_SHIFT;
        }
    }
}

void ps_page_peek_arenas(uint64_t *granules, uint64_t *closed_granules) {
    *granules = 0;
    *closed_granules = 0;
    for (size_t index = 0; index < arena_count(); index++) {
        const struct ps_page_arena *arena = ps_page_arena_at(index);
        uint64_t rest = ps_load_relaxed(&arena->rest_granules);
        *granules += ps_load_relaxed(&arena->granules) + rest;
        *closed_granules += rest;
    }
}
