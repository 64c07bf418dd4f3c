/* SPDX-License-Identifier: MIT */
/*
 * Checks blocks that the calling thread does not own: blocks of other threads, and, at the end of
 * the process, quarantined and free ones. Nothing else would detect a write after free to these, or
 * a write over the end of a block that is never freed. See hard.h.
 *
 * From level 2 on each block's shadow byte tells which contents it must have; other threads may run
 * meanwhile. At level 1 there are no shadow bytes: the blocks on the lists of spans must be zero,
 * except for links, and are checked only if no other thread could be accessing them. Locks: the
 * page cache's, during the walk over the spans.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_canary.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/shadow.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/span_remote.h"

#define SWEEP_BYTES ((size_t)64 << 20) /* upper bound: 10 ms */
#define LOOKS 3                        /* checks that must agree */

/* True when a block is zero, except for a link of the span in its first word. */
PS_RACING bool is_zero(const struct ps_span *span, const void *block, size_t bytes) {
    const uint64_t *word = block;
    /* relaxed: another thread may be linking it. */
    uintptr_t link = (uintptr_t)ps_load_relaxed(&word[0]);
    bool is_link = link == 0 || ps_span_leads_to(span, (void *)(link ^ span->salt));
    uint64_t seen = 0;
    for (size_t i = 1; i < bytes / sizeof *word; i++) {
        seen |= word[i];
    }
    return is_link && seen == 0;
}

/* Returns a description if a block contradicts its shadow byte, or NULL, also if the shadow byte
 * changes meanwhile. */
PS_RACING const char *damage(const struct ps_span *span, const void *block, const uint8_t *mark) {
    uint8_t before = ps_shadow_read(mark);
    const char *what = NULL;
    if (ps_shadow_is(before, PS_SHADOW_LIVE) &&
        !ps_canary_is_intact(block, ps_canary_room(span->block_bytes))) {
        what = PS_MISUSE_OVERRUN;
    } else if (ps_shadow_is(before, PS_SHADOW_FREED) && !is_zero(span, block, span->block_bytes)) {
        what = PS_MISUSE_LATE_WRITE;
    }
    PS_BARRIER();
    return ps_shadow_read(mark) == before ? what : NULL;
}

PS_COLD void ps_hard_check_other(const struct ps_span *span, const void *block) {
    uint32_t no_one = 0;
    const uint8_t *mark = ps_shadow_at(block);
    const char *what = NULL;
    for (int i = 0; i < LOOKS; i++) {
        what = mark != NULL ? damage(span, block, mark) : NULL;
        if (what == NULL) {
            return;
        }
        ps_os_wait_ms(&no_one, 0, 1);
    }
    ps_misuse(what, span, block);
}

struct sweep {
    size_t bytes_left;
    bool is_alone; /* no other thread has blocks in use: neither a heap that is not parked, nor, if
                    * its heap was taken, one that may continue */
};

/* Checks by shadow bytes. The contents of blocks that have not left the window since the span was
 * created or emptied are undefined. */
static void sweep_marked(const struct ps_span *span) {
    size_t end = ps_min(ps_span_handed_index(span), span->limit);
    for (size_t i = span->first; i < end; i++) {
        const char *block = ps_span_block(span, i);
        const uint8_t *mark = ps_shadow_at(block);
        if (PS_UNLIKELY(mark != NULL && damage(span, block, mark) != NULL)) {
            ps_hard_check_other(span, block);
        }
    }
}

static void sweep_list(const struct ps_span *span, void *block) {
    /* Ends: links lead within the span, which bounds their number. */
    for (size_t i = ps_span_capacity(span); i > 0 && !ps_link_is_end(block); i--) {
        if (PS_UNLIKELY(!is_zero(span, block, span->block_bytes))) {
            ps_misuse(PS_MISUSE_LATE_WRITE, span, block);
        }
        block = ps_link_of(block, span->salt);
    }
}

static void sweep_slot(struct ps_slot *slot, void *context) {
    struct sweep *sweep = context;
    /* acquire: pairs with ps_span_create; makes the constant fields of a span visible. */
    if (ps_load_acquire(&slot->run.kind) != PS_RUN_SPAN) {
        return;
    }
    const struct ps_span *span = ps_span_of_slot(slot);
    size_t bytes = ps_span_capacity(span) * span->block_bytes;
    if (bytes > sweep->bytes_left) {
        return;
    }
    sweep->bytes_left -= bytes;
    if (ps_hard_is_on()) {
        sweep_marked(span);
    } else if (sweep->is_alone) {
        sweep_list(span, span->free);
        sweep_list(span, span->stash);
        sweep_list(span, ps_span_remote_list(span));
    }
}

static void count_heap(struct ps_heap *heap, void *context) {
    /* relaxed: threads that end now have returned their blocks. */
    *(size_t *)context += ps_load_relaxed(&heap->x_state) != PS_HEAP_PARKED;
}

PS_AT_START void ps_hard_sweep(void) {
    if (PS_LIKELY(ps_hard_level == 0)) {
        return;
    }
    ps_thread_enter();
    struct ps_heap *heap = ps_heap_recover();
    size_t heaps = 0;
    ps_heap_walk(count_heap, &heaps);
    if (heap != NULL) {
        ps_streak_close(heap);
        ps_remote_flush(heap);
    }
    struct sweep sweep = {.bytes_left = SWEEP_BYTES,
                          .is_alone = heap != NULL && heaps == 1 && ps_background_threads() <= 1};
    ps_page_cache_walk(sweep_slot, &sweep);
    ps_thread_leave();
    ps_hard_large_sweep(sweep.bytes_left);
}
