/* SPDX-License-Identifier: MIT */
/*
 * See pinned.h. Reads words of spans that their owners write, with relaxed loads: a snapshot.
 */
#include "pools/engine/profile/pinned.h"

#include "pools/engine/page/page_cache.h"
#include "pools/engine/profile/countdown.h"
#include "pools/engine/profile/table.h"
#include "pools/engine/small/span_remote.h"

#define ENTRIES_LEAST 64

/* Free bytes of the part of a span that has been used, if a block is live. */
static size_t free_bytes(const struct ps_span *span, size_t live) {
    size_t carved = ps_load_relaxed(&span->carved); /* relaxed: see the file comment */
    size_t used = carved > live ? carved - live : 0;
    return live != 0 ? used * span->block_bytes : 0;
}

static void add_span(struct ps_slot *slot, void *context) {
    struct ps_pinned *pinned = context;
    /* acquire: pairs with ps_span_create; makes the constant fields of a span visible. */
    if (ps_load_acquire(&slot->run.kind) == PS_RUN_SPAN) {
        const struct ps_span *span = ps_span_of_slot(slot);
        if (span->class_index < ps_size_class_count) {
            pinned->actual[span->class_index] +=
                (double)free_bytes(span, ps_span_live_blocks(span));
        }
    }
}

/* Free bytes for each block of the span, with one more live block than it has. */
static double share_of(const struct ps_span *span, uint32_t class_index) {
    /* acquire: as in add_span. */
    if (ps_load_acquire(&span->run.kind) == PS_RUN_SPAN && span->class_index == class_index) {
        size_t live = ps_span_live_blocks(span);
        if (live != 0) {
            return (double)free_bytes(span, live) / (double)(live + 1);
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
    if (sample->span == NULL) {
        return;
    }
    uint32_t class_index = ps_size_class_of(sample->bytes);
    struct ps_pinned_entry *entry = entry_of(pinned, sample->stack, class_index);
    double blocks = (double)sample->weight / PS_DRAW_WEIGHT_ONE;
    double bytes = blocks * share_of(sample->span, class_index);
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
    ps_page_cache_walk(add_span, pinned);
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
