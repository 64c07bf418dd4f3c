/* SPDX-License-Identifier: MIT */
/*
 * See cpu_first.h: push and pop without restartable sequences, reports of misuse.
 */
#include "pools/engine/heap/cpu_first.h"

/* ---- misuse ---- */

PS_COLD void ps_cpu_cache_freed_twice(const void *block) {
    ps_misuse_free(ps_span_at(block), block);
}

PS_COLD void ps_cpu_cache_overwritten(const void *block) {
    ps_misuse_link(block, ps_span_at(block)->block_bytes);
}

/* ---- without restartable sequences ---- */

/* Notes the state in which this thread is about to set HELD, or NULL, for a fork by a signal
 * handler. */
static inline void note_held(uint64_t *state) {
    ps_thread.cache_state = state;
    ps_fence_program_order();
}

bool ps_cpu_cache_push_held(struct ps_cpu_cache *cache, size_t class_index, void *block) {
    uint64_t state = ps_cpu_cache_state(cache, class_index);
    size_t count = state & PS_CPU_STATE_COUNT;
    if (ps_thread.cache_state != NULL || count >= ps_cpu_cache_limit(cache, class_index)) {
        return false; /* a signal handler in the middle of a push or pop goes on without */
    }
    note_held(&cache->x_state[class_index]);
    bool is_held = ps_cpu_cache_hold(cache, class_index, state);
    if (is_held) {
        cache->blocks[class_index][count] = block;
        ps_cpu_cache_release(cache, class_index, state + PS_CPU_STATE_PUSHED);
    }
    note_held(NULL);
    return is_held;
}

void *ps_cpu_cache_pop_held(struct ps_cpu_cache *cache, size_t class_index) {
    uint64_t state = ps_cpu_cache_state(cache, class_index);
    size_t count = state & PS_CPU_STATE_COUNT;
    void *block = NULL;
    if (ps_thread.cache_state != NULL || count == 0) {
        return NULL;
    }
    note_held(&cache->x_state[class_index]);
    if (ps_cpu_cache_hold(cache, class_index, state)) {
        block = cache->blocks[class_index][count - 1];
        if (count - 1 < ps_cpu_cache_low(cache, class_index)) {
            ps_cpu_cache_set_low(cache, class_index, count - 1);
        }
        ps_cpu_cache_release(cache, class_index, state + PS_CPU_STATE_POPPED);
    }
    note_held(NULL);
    return block;
}
