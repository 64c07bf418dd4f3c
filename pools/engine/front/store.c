/* SPDX-License-Identifier: MIT */
/*
 * See store.h. The slabs of a class that have free blocks are on lists, by how many they have;
 * those without are on none, and are found by the blocks that return.
 */
#include "pools/engine/front/store.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/slab_bits.h"
#include "pools/engine/front/store_lists.h"
#include "pools/engine/front/window.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/retention.h"

#define SLABS_OF_BATCH 4 /* that a batch comes from, at most */

/* ---- take ---- */

/* The number of adjacent free blocks from `first` on that begin in purged pages, up to `most`. */
static size_t purged_length(const struct ps_slab *slab, size_t first, size_t most) {
    size_t page_bytes = ps_os_page_bytes();
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    size_t page = first * block_bytes / page_bytes;
    size_t end = page;
    while ((slab->purged_pages >> end & 1) != 0) { /* ends: 16 bits */
        end++;
    }
    size_t behind = (end * page_bytes + block_bytes - 1) / block_bytes;
    return end == page ? 0 : ps_slab_run_length(slab, first, ps_min(most, behind - first));
}

/* Makes pages that blocks from `first` on reach into resident, as far as the account knows. */
static void touch_pages(struct ps_store *store, struct ps_slab *slab, size_t first, size_t count) {
    if (PS_LIKELY(slab->purged_pages == 0)) {
        return;
    }
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    size_t begin_page = first * block_bytes / ps_os_page_bytes();
    size_t last_page = ((first + count) * block_bytes - 1) / ps_os_page_bytes();
    uint16_t pages = (uint16_t)((2u << last_page) - (1u << begin_page)) & slab->purged_pages;
    ps_store_set_purged(store, slab, slab->purged_pages & (uint16_t)~pages);
}

/* A window of a slab whose freed blocks are all used again, or whose first free blocks lie in
 * purged pages. 0: there is none. */
static ps_range take_window(struct ps_store *store, struct ps_slab *slab, size_t most) {
    const struct ps_size_class *class = ps_slab_class(slab);
    size_t fresh_blocks = (size_t)(class->limit - slab->fresh);
    size_t first, count;
    if (slab->x_free_count == fresh_blocks) {
        first = slab->fresh;
        count = ps_min(most, fresh_blocks);
    } else if (slab->purged_pages != 0) {
        first = ps_slab_next_free(slab, class->first);
        count = purged_length(slab, first, most);
    } else {
        return 0;
    }
    if (count == 0) {
        return 0;
    }
    touch_pages(store, slab, first, count);
    ps_slab_remove_range(slab, first, count);
    ps_slab_raise_fresh(slab, first + count);
    ps_store_add_free(store, slab, -count);
    ps_add_relaxed(&ps_store_x_counts[slab->class_index].x_windowed, (uint64_t)count); /* a count */
    return ps_range_of(ps_slab_block(slab, first), count);
}

static size_t take_blocks(struct ps_store *store, struct ps_slab *slab, void **blocks,
                          size_t most) {
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    size_t words = (size_t)(ps_slab_class(slab)->limit + 63) / 64;
    size_t taken = 0;
    size_t last = 0;
    for (size_t w = 0; w < words && taken < most; w++) {
        uint64_t left = slab->bits[w];
        if (left == 0) {
            continue;
        }
        while (left != 0 && taken < most) {
            last = w * 64 + (size_t)__builtin_ctzll(left);
            left &= left - 1;
            blocks[taken++] = slab->run.base + last * block_bytes;
            touch_pages(store, slab, last, 1);
        }
        ps_slab_set_word(&slab->bits[w], left);
    }
    ps_slab_raise_fresh(slab, last + 1);
    ps_store_add_free(store, slab, -taken);
    return taken;
}

static size_t take_from(struct ps_store *store, void **blocks, size_t most, ps_range *range) {
    size_t range_blocks = range != NULL ? (size_t)*range : 0;
    size_t taken = 0;
    for (int i = 0; i < SLABS_OF_BATCH && store->nonempty != 0 && taken < most; i++) {
        size_t place = (size_t)__builtin_ctz(store->nonempty);
        struct ps_slab *slab = ps_slab_of_run(store->lists[place]);
        ps_store_count_drained(store, -(uint32_t)ps_slab_is_drained(slab));
        ps_range window =
            range_blocks != 0 && taken == 0 ? take_window(store, slab, range_blocks) : 0;
        taken += window == 0 ? take_blocks(store, slab, &blocks[taken], most - taken) : 0;
        if (PS_UNLIKELY(ps_slab_is_inherited(slab))) {
            ps_slab_set_tag(slab);
        }
        if (window != 0) {
            *range = window;
            break;
        }
    }
    return taken;
}

size_t ps_store_take_from(struct ps_store *store, void **blocks, size_t most, ps_range *range) {
    if (!ps_store_begin(store)) {
        return 0;
    }
    size_t taken = take_from(store, blocks, most, range);
    ps_store_end(store);
    return taken;
}

static size_t take_of_node(uint32_t node, uint32_t class_index, void **blocks, size_t most,
                           ps_range *range) {
    return ps_store_take_from(ps_store_at(node, class_index), blocks, most, range);
}

size_t ps_store_take(uint32_t class_index, void **blocks, size_t most, ps_range *range,
                     bool is_any_node) {
    uint32_t here = ps_node_here();
    ps_range wanted = range != NULL ? *range : 0;
    size_t taken = take_of_node(here, class_index, blocks, most, range);
    for (uint32_t node = 0; is_any_node && node <= ps_node_last(); node++) {
        if (taken == 0 && (range == NULL || *range == wanted) && node != here) {
            taken = take_of_node(node, class_index, blocks, most, range);
        }
    }
    if (range != NULL && *range == wanted) {
        *range = 0;
    }
    return taken;
}

/* ---- give ---- */

/* By address. Batches are short, or nearly sorted. */
static void sort(void **blocks, size_t count) {
    for (size_t i = 1; i < count; i++) {
        void *block = blocks[i];
        size_t at = i;
        for (; at > 0 && (uintptr_t)blocks[at - 1] > (uintptr_t)block; at--) {
            blocks[at] = blocks[at - 1];
        }
        blocks[at] = block;
    }
}

/* Marks the blocks at the front of a sorted batch that are of the same slab. Returns how many. */
static size_t mark_blocks(struct ps_slab *slab, void *const *blocks, size_t count) {
    const char *base = slab->run.base;
    size_t bytes = (size_t)slab->run.granules << PS_GRANULE_SHIFT;
    size_t i = 0;
    for (; i < count && (size_t)((const char *)blocks[i] - base) < bytes; i++) {
        size_t index = ps_slab_index(slab, blocks[i]);
        uint64_t bit = (uint64_t)1 << index % 64;
        uint64_t *word = &slab->bits[index / 64];
        if (PS_UNLIKELY((*word & bit) != 0)) {
            ps_slab_freed_twice(slab, index);
        }
        ps_slab_set_word(word, *word | bit);
    }
    return i;
}

void ps_store_give(uint32_t class_index, void **blocks, size_t count) {
    sort(blocks, count);
    for (size_t i = 0; i < count;) {
        /* All slabs of a store at once. */
        const struct ps_slab *first = ps_slab_of(blocks[i]);
        struct ps_store *store = ps_store_of(first);
        PS_CHECK(first->class_index == class_index);
        struct ps_run *gone = NULL;
        if (!ps_store_begin(store)) {
            return; /* they remain used */
        }
        while (i < count) {
            struct ps_slab *slab = ps_slab_of(blocks[i]);
            if (slab->run.node != first->run.node || slab->extent != first->extent) {
                break;
            }
            size_t gained = mark_blocks(slab, &blocks[i], count - i);
            i += gained;
            if (ps_store_gain(store, slab, gained)) {
                slab->run.next = gone;
                gone = &slab->run;
            }
        }
        ps_store_end(store);
        while (gone != NULL) {
            struct ps_slab *slab = ps_slab_of_run(gone);
            gone = gone->next;
            ps_store_destroy(slab);
        }
    }
}

void ps_store_give_range(uint32_t class_index, char *lowest, size_t count) {
    struct ps_slab *slab = ps_slab_of(lowest);
    struct ps_store *store = ps_store_of(slab);
    PS_CHECK(slab->class_index == class_index);
    if (!ps_store_begin(store)) {
        return;
    }
    ps_slab_add_range(slab, ps_slab_index(slab, lowest), count);
    bool is_gone = ps_store_gain(store, slab, count);
    ps_store_end(store);
    if (is_gone) {
        ps_store_destroy(slab);
    }
}

/* ---- drained slabs ---- */

static void drop_drained(struct ps_store *store, bool is_all) {
    /* relaxed: a hint. Each round drops one slab, so that the loop ends. */
    while (store != NULL && ps_load_relaxed(&store->drained) != 0) {
        struct ps_slab *gone = NULL;
        if (!ps_store_begin(store)) {
            return;
        }
        struct ps_run *run = store->lists[PS_STORE_PLACES - 1];
        while (run != NULL && gone == NULL) {
            struct ps_slab *slab = ps_slab_of_run(run);
            run = run->next;
            if (ps_slab_is_drained(slab) && ps_store_retire(store, slab, is_all)) {
                gone = slab;
            }
        }
        ps_store_end(store);
        if (gone == NULL) {
            return;
        }
        ps_store_destroy(gone);
    }
}

void ps_store_drop_drained(bool is_all) {
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        for (uint32_t i = 0; i < ps_size_class_count; i++) {
            drop_drained(ps_store_at(node, i), is_all);
        }
    }
}
