/* SPDX-License-Identifier: MIT */
/*
 * See pinned.h. Reads words of slabs that others write, with relaxed loads: a snapshot.
 */
#include "pools/engine/profile/pinned.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/profile/table.h"

#define ENTRIES_LEAST 64

/* Blocks of a slab that are not free: those in fronts are taken for live ones. relaxed: see the
 * file comment. */
static size_t live_blocks(const struct ps_slab *slab) {
    size_t capacity = slab->capacity;
    return capacity - ps_min(ps_load_relaxed(&slab->x_free_count), capacity);
}

/* Free bytes of the part of a slab that has been used, if a block is live. */
static size_t free_bytes(const struct ps_slab *slab, size_t live) {
    size_t used = ps_load_relaxed(&slab->fresh); /* relaxed: as above */
    return live != 0 && used > live ? (used - live) * ps_slab_class(slab)->block_bytes : 0;
}

static void add_slab(struct ps_slot *slot, void *context) {
    struct ps_pinned *pinned = context;
    /* acquire: pairs with ps_store_grow; makes the constant fields of a slab visible. */
    if (ps_load_acquire(&slot->run.kind) == PS_RUN_SLAB) {
        const struct ps_slab *slab = (const struct ps_slab *)slot;
        if (slab->class_index < ps_size_class_count) {
            pinned->actual[slab->class_index] += (double)free_bytes(slab, live_blocks(slab));
        }
    }
}

/* Free bytes for each block of the slab, with one more live block than it has. */
static double share_of(const struct ps_slab *slab, uint32_t class_index) {
    /* acquire: as in add_slab. */
    if (ps_load_acquire(&slab->run.kind) == PS_RUN_SLAB && slab->class_index == class_index) {
        size_t live = live_blocks(slab);
        if (live != 0) {
            return (double)free_bytes(slab, live) / (double)(live + 1);
        }
    }
    const struct ps_size_class *class = &ps_size_classes[class_index];
    return (double)(class->granules * PS_GRANULE_BYTES - class->block_bytes);
}

static struct ps_pinned_entry *entry_of(const struct ps_pinned *pinned,
                                        const struct ps_profile_stack *stack,
                                        uint32_t class_index) {
    size_t hash = ((uintptr_t)stack >> 4) * 0x9e3779b97f4a7c15u;
    hash = (hash >> 32) + class_index;
    for (size_t i = 0; i <= pinned->mask; i++) { /* ends at the latest where it began */
        struct ps_pinned_entry *entry = &pinned->entries[(hash + i) & pinned->mask];
        bool is_same = entry->stack == stack && entry->class_index == class_index;
        if (entry->stack == NULL || is_same) {
            return entry;
        }
    }
    return NULL;
}

static void add_sample(const struct ps_sample *sample, void *context) {
    struct ps_pinned *pinned = context;
    if (sample->slab == NULL) {
        return;
    }
    uint32_t class_index = ps_size_class_of(sample->bytes);
    struct ps_pinned_entry *entry = entry_of(pinned, sample->stack, class_index);
    double blocks = (double)sample->weight / PS_DRAW_WEIGHT_ONE;
    double bytes = blocks * share_of(sample->slab, class_index);
    pinned->claimed[class_index] += bytes;
    if (entry != NULL) {
        entry->stack = sample->stack;
        entry->class_index = class_index;
        entry->bytes += bytes;
    }
}

size_t ps_pinned_entries(size_t sample_count) {
    size_t count = ENTRIES_LEAST;
    while (count < 2 * sample_count) {
        count *= 2;
    }
    return count;
}

void ps_pinned_count(struct ps_pinned *pinned) {
    ps_page_cache_walk(add_slab, pinned);
    ps_table_walk(add_sample, pinned);
}

uint64_t ps_pinned_of(const struct ps_pinned *pinned, const struct ps_profile_stack *stack) {
    double bytes = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        const struct ps_pinned_entry *entry =
            pinned->claimed[i] > 0 ? entry_of(pinned, stack, i) : NULL;
        if (entry != NULL && entry->stack == stack) {
            bytes += entry->bytes * pinned->actual[i] / pinned->claimed[i];
        }
    }
    return (uint64_t)bytes;
}
