/* SPDX-License-Identifier: MIT */
/*
 * See store.h: returns the pages of part-filled slabs in which no block is used. Four epochs are a
 * purge delay; a slab is idle after five, since the first and the last may be parts. Each epoch
 * begins a pass over the slots of all granules.
 *
 * While the system drops the pages, their blocks count as used: the purge needs no lock then, and
 * no state of its own. In the child of a fork the blocks of one slab may remain used.
 */
#include "pools/engine/front/store.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/slab_bits.h"
#include "pools/engine/front/store_lists.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/turn.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define EPOCHS_OF_DELAY 4
#define EPOCH_MS_LEAST 25
#define SLOTS_PER_US 64
#define SLAB_US 1
#define KIB_PER_US 16

/* ---- pages of a slab ---- */

/* The last block that lies in a page or reaches into it. */
static size_t last_in_page(const struct ps_size_class *class, size_t page) {
    size_t last = ((page + 1) * ps_os_page_bytes() - 1) / class->block_bytes;
    return ps_min(last, class->limit - 1u);
}

/* The pages of a slab in which no block is used, without those that hold no memory. */
static uint16_t unused_pages(const struct ps_slab *slab) {
    const struct ps_size_class *class = ps_slab_class(slab);
    size_t page_bytes = ps_os_page_bytes();
    size_t touched = slab->is_zero ? slab->fresh * (size_t) class->block_bytes : PS_GRANULE_BYTES;
    uint16_t found = 0;
    for (size_t page = 0; page * page_bytes < touched; page++) {
        size_t first = ps_max(page * page_bytes / class->block_bytes, class->first);
        size_t last = last_in_page(class, page);
        if (first <= last &&
            ps_slab_run_length(slab, first, last + 1 - first) == last + 1 - first) {
            found |= (uint16_t)(1u << page);
        }
    }
    return found & (uint16_t)~slab->purged_pages;
}

/* Calls add_range or remove_range for the blocks that lie in or reach into some pages, which are
 * all free or all taken. Returns their number. */
static size_t for_blocks(struct ps_slab *slab, uint16_t pages,
                         void (*change)(struct ps_slab *slab, size_t first, size_t count)) {
    const struct ps_size_class *class = ps_slab_class(slab);
    size_t behind = class->first; /* block: neighbours may share one */
    size_t blocks = 0;
    for (uint32_t left = pages; left != 0; left &= left - 1) {
        size_t page = (size_t)__builtin_ctz(left);
        size_t first = ps_max(page * ps_os_page_bytes() / class->block_bytes, behind);
        size_t last = last_in_page(class, page);
        if (first <= last) {
            change(slab, first, last + 1 - first);
            blocks += last + 1 - first;
            behind = last + 1;
        }
    }
    return blocks;
}

/* The blocks that follow the fresh ones' beginning are all free, or none of them is fresh. */
static void reserve_range(struct ps_slab *slab, size_t first, size_t count) {
    ps_slab_remove_range(slab, first, count);
    ps_slab_raise_fresh(slab, first + count);
}

/* True if it is a slab of this store, with free blocks, that has not changed for `age` epochs.
 * relaxed, both: written under the lock. */
static bool is_of_store(const struct ps_slab *slab, const struct ps_store *store,
                        uint32_t class_index, uint8_t age) {
    return ps_load_relaxed(&slab->run.kind) == PS_RUN_SLAB && slab->class_index == class_index &&
           slab->place != 0 && ps_store_of(slab) == store &&
           (uint8_t)(ps_load_relaxed(&ps_store_x_epoch) - slab->epoch) >= age;
}

uint16_t ps_store_reserve_pages(struct ps_slab *slab, uint8_t age) {
    uint32_t class_index = slab->class_index; /* of a slab that may just be ending */
    if (class_index >= ps_size_class_all_count || ps_size_classes[class_index].granules != 1) {
        return 0;
    }
    struct ps_store *store = ps_store_of(slab);
    if (!ps_store_begin(store)) {
        return 0;
    }
    uint16_t pages = 0;
    if (is_of_store(slab, store, class_index, age)) {
        pages = unused_pages(slab);
        if (__builtin_popcount(pages) >= PS_STORE_LEAST_PAGES) {
            ps_store_count_drained(store, -(uint32_t)ps_slab_is_drained(slab));
            ps_store_add_free(store, slab, -for_blocks(slab, pages, reserve_range));
        } else {
            pages = 0;
        }
    }
    ps_store_end(store);
    return pages;
}

void ps_store_return_pages(struct ps_slab *slab, uint16_t pages, bool is_purged) {
    struct ps_store *store = ps_store_of(slab);
    if (!ps_store_begin(store)) {
        return;
    }
    size_t blocks = for_blocks(slab, pages, ps_slab_add_range);
    ps_store_set_purged(store, slab, slab->purged_pages | (is_purged ? pages : 0));
    bool is_gone = ps_store_gain(store, slab, blocks);
    ps_store_end(store);
    if (is_gone) {
        ps_store_destroy(slab);
    }
}

/* ---- passes ---- */

uint64_t ps_store_purge_x_due_ms;

static uint32_t x_holder; /* lock id of the thread that purges; 0: none */

/* Variables of that thread. */
static uint64_t epoch_ends_ms;
static size_t next_arena, next_granule; /* of the pass */
static bool is_passing;
static bool is_for_all; /* the pass is of slabs of any age */
static struct ps_purge_credit credit;
static bool is_apart;         /* purged huge pages remain split: huge.h */
static uintptr_t last_broken; /* number of the huge page that was split last */

static bool is_possible(void) {
    size_t page_bytes = ps_os_page_bytes();
    return page_bytes * 2 <= PS_GRANULE_BYTES && PS_GRANULE_BYTES <= page_bytes * 16;
}

static void begin_pass(bool is_asked) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    is_apart = ps_huge_keeps_holes(counts.arena_granules);
    next_arena = 0;
    next_granule = 0;
    is_passing = true;
    is_for_all = is_asked || ps_retention_delay_ms() == 0;
}

static void begin_epoch(uint64_t now_ms) {
    uint64_t epoch_ms = ps_retention_delay_ms() / EPOCHS_OF_DELAY;
    epoch_ends_ms = now_ms + ps_max(epoch_ms, EPOCH_MS_LEAST);
    ps_store_relaxed(&ps_store_x_epoch, (uint8_t)(ps_store_x_epoch + 1)); /* relaxed: a time */
    if (!is_passing || !is_for_all) {
        begin_pass(false);
    }
}

/* Drops some pages of a slab. Returns the bytes; *is_all: nothing was refused. */
static uint64_t drop(const struct ps_slab *slab, uint16_t pages, bool *is_all) {
    size_t page_bytes = ps_os_page_bytes();
    uint64_t bytes = 0;
    *is_all = true;
    for (uint32_t left = pages; left != 0;) {
        size_t first = (size_t)__builtin_ctz(left);
        size_t count = (size_t)__builtin_ctz(~(left >> first));
        if (ps_os_purge(slab->run.base + first * page_bytes, count * page_bytes)) {
            bytes += count * page_bytes;
        } else {
            *is_all = false;
        }
        left &= ~((((uint32_t)1 << count) - 1) << first);
    }
    return bytes;
}

/* Drops the last slab of a class of a partition, of several granules, if no block of it is used.
 * (ps_store_drop_drained drops others; partitions may be too many for such a loop.) */
static void drop_idle(struct ps_slab *slab, uint8_t age) {
    uint32_t class_index = slab->class_index; /* as in ps_store_reserve_pages */
    if (PS_LIKELY(slab->extent == NULL) || class_index >= ps_size_class_all_count ||
        ps_size_classes[class_index].granules == 1) {
        return;
    }
    struct ps_store *store = ps_store_of(slab);
    if (!ps_store_begin(store)) {
        return;
    }
    bool is_idle = is_of_store(slab, store, class_index, age) && ps_slab_is_drained(slab) &&
                   ps_store_retire(store, slab, true);
    ps_store_end(store);
    if (is_idle) {
        ps_store_destroy(slab);
    }
}

/* Purges a slab, which may have ended. Returns the cost in us. */
static int64_t purge_slab(struct ps_slab *slab, uint8_t age, uint64_t *bytes) {
    drop_idle(slab, age);
    uint16_t pages = ps_store_reserve_pages(slab, age);
    if (pages == 0) {
        return SLAB_US;
    }
    bool is_huge = ps_huge_is_wanted(slab->run.is_huge);
    if ((is_huge && !is_apart) || ps_hugetlb_has(&slab->run)) {
        ps_store_return_pages(slab, pages, false);
        return SLAB_US;
    }
    char *base = slab->run.base;
    bool is_all;
    uint64_t dropped = drop(slab, pages, &is_all);
    ps_store_return_pages(slab, pages, is_all);
    *bytes += dropped;
    int64_t us = SLAB_US + (int64_t)(dropped / 1024 / KIB_PER_US);
    if (is_huge && dropped != 0 && (uintptr_t)base / PS_HUGE_PAGE_BYTES != last_broken) {
        ps_huge_keep_holes(base, 1);
        last_broken = (uintptr_t)base / PS_HUGE_PAGE_BYTES;
        us += PS_PURGE_BREAK_US;
    }
    ps_purge_count(dropped);
    return us;
}

/* The slot of the next granule of the pass; NULL: it is over. */
static struct ps_slot *next_slot(void) {
    while (next_arena < ps_page_arena_count()) {
        const struct ps_page_arena *arena = ps_page_arena_at(next_arena);
        if (next_granule < ps_load_relaxed(&arena->granules)) { /* relaxed: it grows */
            return ps_page_map_slot(arena->base + (next_granule++ << PS_GRANULE_SHIFT));
        }
        next_arena++;
        next_granule = 0;
    }
    is_passing = false;
    return NULL;
}

/* A step of the pass. Returns the cost in us. */
static int64_t step(uint64_t *bytes) {
    uint8_t age = is_for_all ? 0 : EPOCHS_OF_DELAY + 1;
    int64_t us = 0;
    for (size_t slots = 1; us < PS_PURGE_STEP_US; slots++) {
        struct ps_slot *slot = next_slot();
        if (slot == NULL) {
            break;
        }
        us += slots % SLOTS_PER_US == 0;
        /* acquire: pairs with ps_store_grow. */
        if (ps_load_acquire(&slot->run.kind) == PS_RUN_SLAB) {
            us += purge_slab((struct ps_slab *)slot, age, bytes);
        }
    }
    return us;
}

/* The same at its time. */
static void step_in_time(uint64_t now_ms, uint64_t *bytes) {
    ps_purge_credit_add(&credit, now_ms, 0);
    if (credit.us > 0) {
        credit.us -= step(bytes);
    }
}

bool ps_store_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes) {
    if (!is_possible() || !ps_turn_begin(&x_holder)) {
        return false;
    }
    if (now_ms >= epoch_ends_ms) {
        begin_epoch(now_ms);
    }
    if (is_asked && !(is_passing && is_for_all)) {
        begin_pass(true);
    }
    if (is_passing && is_asked) {
        (void)step(bytes);
    } else if (is_passing) {
        step_in_time(now_ms, bytes);
    }
    bool has_more = is_passing;
    uint64_t due_ms = is_passing ? 0 : epoch_ends_ms;
    ps_store_relaxed(&ps_store_purge_x_due_ms, due_ms); /* relaxed: a hint */
    ps_turn_end(&x_holder);
    return has_more;
}

uint64_t ps_store_purge_all(void) {
    uint64_t bytes = 0;
    if (is_possible() && ps_turn_begin(&x_holder)) {
        begin_pass(true);
        while (is_passing) { /* ends: at the last granule */
            (void)step(&bytes);
        }
        ps_turn_end(&x_holder);
    }
    return bytes;
}

void ps_store_purge_stop(void) {
    while (!ps_turn_begin(&x_holder)) { /* ends: a step is bounded */
        uint32_t never = 0;
        ps_os_wait_ms(&never, 0, 1);
    }
}

void ps_store_purge_resume(void) { ps_turn_end(&x_holder); }

void ps_store_purge_fork_child(void) {
    if (!ps_turn_is_own(&x_holder)) {
        is_passing = false;
        ps_store_purge_x_due_ms = 0;
        ps_turn_end(&x_holder);
    }
}
