/* SPDX-License-Identifier: MIT */
/*
 * Check and figures of a shared heap. See shared.h.
 */
#include "pools/shared/shared.h"

const char *ps_shared_check(struct ps_shared *heap) {
    if (shared_is_reader(heap)) {
        return NULL;
    }
    const struct shared_header *header = shared_header(heap);
    struct ps_offset_memory memory = ps_shared_enter(heap);
    uint64_t bytes = ps_offset_bytes(&memory);
    const char *fault = bytes > heap->view.bytes ? "the heap's record is overwritten"
                                                 : ps_offset_heap_check(&memory, bytes);
    if (fault == NULL) {
        struct ps_offset_counts counts;
        ps_offset_heap_count(&memory, &counts);
        if (counts.used_count != header->used_count || counts.used_bytes != header->used_bytes) {
            fault = "the counts are wrong about the blocks";
        }
    }
    ps_shared_leave(heap);
    return fault;
}

/* All blocks of the highest class that has one are at least as long as its lower bound. */
static size_t fitting_bytes(const struct ps_fit_index *index) {
    if (index->summary == 0) {
        return 0;
    }
    size_t word = ps_log2(index->summary);
    return ps_fit_least_of(word * 64 + ps_log2(index->bits[word])) - PS_FIT_HEAD;
}

void ps_shared_stats(struct ps_shared *heap, struct ps_shared_stats *stats) {
    const struct shared_header *header = shared_header(heap);
    bool is_reader = shared_is_reader(heap);
    struct ps_offset_memory memory = {heap->view.base, &shared_header(heap)->heap, NULL};
    if (!is_reader) {
        (void)ps_shared_enter(heap);
    }
    /* relaxed: under the lock, or each by itself. */
    *stats = (struct ps_shared_stats){
        .name = heap->chunks.name,
        .max_bytes = header->label.max_bytes,
        .total_bytes = ps_load_relaxed(&header->heap.end) + PS_FIT_HEAD,
        .used_count = ps_load_relaxed(&header->used_count),
        .used_bytes = ps_load_relaxed(&header->used_bytes),
        .fitting_bytes = is_reader ? 0 : fitting_bytes(&header->heap.index),
        .name_count = ps_load_relaxed(&header->x_name_count),
        .recovery_count = ps_load_relaxed(&header->recovery_count),
    };
    stats->free_bytes = stats->total_bytes - ps_offset_first(&memory) - stats->used_bytes;
    if (!is_reader) {
        ps_shared_leave(heap);
    }
}
