/* SPDX-License-Identifier: MIT */
/*
 * See stray.h.
 */
#include "pools/engine/harden/stray.h"

#include "pools/engine/front/shadow.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/mark.h"

#include <errno.h>

/* ---- blocks of size 0 ---- */

/* Their runs are never returned: a program that has many at a time will have them again. A run's
 * shadow bytes are its free list: an allocation searches for a block that is not live, from the
 * place of the last one. */

#define RUN_BLOCKS (PS_GRANULE_BYTES / PS_ZERO_ALIGN)

/* The tenant's half of the slot of such a run. */
struct zero_run {
    uint32_t x_live; /* blocks; briefly more */
    uint32_t x_next; /* where the next search starts */
    struct zero_run *next;
};

static struct zero_run *x_runs; /* all runs; only pushed to */

static struct ps_slot *slot_of(struct zero_run *run) { return (struct ps_slot *)run; }

/* Finds a free block of a run in which one has been reserved. NULL: no memory for shadow bytes. */
static void *find(struct zero_run *run) {
    for (;;) { /* ends: there are more free blocks than searches */
        /* relaxed: only a starting point. */
        uint32_t index = ps_add_relaxed(&run->x_next, 1u) % RUN_BLOCKS;
        char *block = slot_of(run)->run.base + (size_t)index * PS_ZERO_ALIGN;
        uint8_t *mark = ps_shadow_make_at(block);
        if (PS_UNLIKELY(mark == NULL)) {
            return NULL;
        }
        uint8_t seen = ps_shadow_read(mark);
        /* acquire: pairs with ps_zero_free; the block is ours. */
        if (!ps_shadow_is(seen, PS_SHADOW_LIVE) &&
            ps_cas_strong_acquire(mark, &seen, (uint8_t)PS_SHADOW_LIVE)) {
            return block;
        }
    }
}

static void *take_from(struct zero_run *run) {
    void *block = NULL;
    /* relaxed, all: a count, which alone implies that there is a free block. */
    if (ps_load_relaxed(&run->x_live) >= RUN_BLOCKS) {
        return NULL;
    }
    if (ps_add_relaxed(&run->x_live, 1u) < RUN_BLOCKS) {
        block = find(run);
    }
    if (PS_UNLIKELY(block == NULL)) {
        ps_add_relaxed(&run->x_live, (uint32_t)-1);
    }
    return block;
}

static struct zero_run *make(void) {
    struct ps_run *run = ps_page_cache_take(1, 1);
    if (run == NULL) {
        return NULL;
    }
    (void)ps_os_purge(run->base, PS_GRANULE_BYTES);
    (void)ps_os_protect(run->base, PS_GRANULE_BYTES, false); /* refused: still accessible */
    struct zero_run *made = (struct zero_run *)ps_slot_of_run(run);
    ps_store_relaxed(&made->x_live, 0u); /* relaxed, both: released below */
    ps_store_relaxed(&made->x_next, 0u);
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_ZERO); /* relaxed: no block is allocated yet */
    made->next = ps_load_relaxed(&x_runs);              /* relaxed: the swap validates it */
    /* release: pairs with the acquire in ps_zero_alloc; makes the run visible. */
    while (!ps_cas_weak_release(&x_runs, &made->next, made)) {
    }
    return made;
}

void *ps_zero_alloc(void) {
    void *block = NULL;
    /* acquire: pairs with make. Ends with the runs, each of which has a thousand blocks. */
    for (struct zero_run *run = ps_load_acquire(&x_runs); run != NULL && block == NULL;
         run = run->next) {
        block = take_from(run);
    }
    struct zero_run *made = block == NULL ? make() : NULL;
    block = made != NULL ? take_from(made) : block;
    if (PS_UNLIKELY(block == NULL)) {
        errno = ENOMEM;
    }
    return block;
}

bool ps_zero_is_live(const void *block) {
    /* relaxed: set before the block was allocated. */
    return ps_load_relaxed(&ps_page_map_slot(block)->run.kind) == PS_RUN_ZERO &&
           ps_shadow_of_live(block) != NULL;
}

void ps_zero_free(struct ps_slot *slot, void *block) {
    uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_fatal_block((uintptr_t)block % PS_ZERO_ALIGN == 0 ? "double free of"
                                                             : "free of interior pointer",
                       block, 0);
    }
    if (PS_UNLIKELY(ps_shadow_family(mark) != 0)) {
        ps_fatal_block(PS_MISUSE_FAMILY, block, 0);
    }
    ps_store_release(mark, (uint8_t)PS_SHADOW_FREED); /* release: pairs with find */
    /* relaxed: a count, decremented after its shadow byte: see take_from. */
    ps_add_relaxed(&((struct zero_run *)slot)->x_live, (uint32_t)-1);
}

/* ---- stray addresses ---- */

static enum ps_foreign foreign_policy = PS_FOREIGN_ABORT;

PS_AT_START void ps_stray_start(const struct ps_config *config) {
    foreign_policy = config->foreign;
}

/* Classifies an address in a region of medium blocks at which no live block starts. */
static PS_COLD enum ps_misuse_state state_in_region(const struct ps_slot *slot, const void *block) {
    bool is_page = (uintptr_t)block % PS_MEDIUM_PAGE_BYTES == 0;
    /* relaxed: affects the words only. */
    bool waits = (ps_load_relaxed(ps_medium_mark(slot, block)) & PS_MEDIUM_WAITS) != 0;
    return is_page && (waits || ps_medium_is_free(block)) ? PS_MISUSE_OF_FREE
                                                          : PS_MISUSE_OF_INTERIOR;
}

/* Reports an address without a live block. Returns only for a foreign pointer, if the policy
 * permits it. */
static PS_COLD void report(const struct ps_slot *slot, const void *block,
                           enum ps_misuse_call call) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: affects the words only */
    if (kind == PS_RUN_FREE || kind == PS_RUN_BUSY) {
        ps_fatal_address(ps_misuse_words(call, PS_MISUSE_OF_FREE), block);
    }
    if (kind == PS_RUN_MEDIUM) {
        ps_fatal_address(ps_misuse_words(call, state_in_region(slot, block)), block);
    }
    if (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) {
        ps_fatal_address(ps_misuse_words(call, PS_MISUSE_OF_INTERIOR), block);
    }
    const char *what = ps_misuse_words(call, PS_MISUSE_OF_FOREIGN);
    if (foreign_policy == PS_FOREIGN_ABORT) {
        ps_fatal_address(what, block);
    }
    if (foreign_policy == PS_FOREIGN_WARN) {
        ps_report_address(what, block);
    }
}

void ps_stray_free(struct ps_slot *slot, void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (block == NULL) { /* the streak of free accepts it, unless one is open */
        return;
    }
    if (kind == PS_RUN_GUARD) {
        ps_guard_free(block);
    } else if (kind == PS_RUN_ZERO) {
        ps_zero_free(slot, block);
    } else if (ps_bootstrap_usable(block) == 0) {
        report(slot, block, PS_MISUSE_FREE);
    }
}

size_t ps_stray_usable(const struct ps_slot *slot, const void *block, enum ps_misuse_call call) {
    /* relaxed: as in ps_stray_free. */
    if (ps_load_relaxed(&slot->run.kind) == PS_RUN_GUARD) {
        return ps_guard_usable(block, call == PS_MISUSE_REALLOC ? "realloc" : "size");
    }
    if (ps_zero_is_live(block)) {
        return 0;
    }
    size_t early = ps_bootstrap_usable(block);
    if (early != 0) {
        return early;
    }
    report(slot, block, call);
    return PS_STRAY_FOREIGN;
}
