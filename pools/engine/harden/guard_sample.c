/* SPDX-License-Identifier: MIT */
/*
 * Which allocations are guarded samples: see guard.h. The state is the calling thread's. No locks.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#define BYTES_PER_ALLOCATION 8 /* between two points, for each allocation between two samples */

/* True if the sampler was new. No system call: a filter that the program has installed may forbid
 * one. */
static bool begin_if_new(struct ps_sampler *sampler) {
    bool is_new = sampler->interval_bytes == 0;
    if (PS_UNLIKELY(is_new)) {
        sampler->random ^= (uintptr_t)sampler ^ ps_os_now_ms() << 20 ^ ps_lock_self();
        sampler->interval_bytes = (size_t)ps_guard_period * BYTES_PER_ALLOCATION;
    }
    return is_new;
}

/* ---- allocations ---- */

PS_COLD void *ps_guard_try_due(size_t bytes) {
    struct ps_sampler *sampler = &ps_front_thread.sampler;
    if (ps_guard_period == 0) {
        sampler->left_bytes = INT64_MAX;
        return NULL;
    }
    if (begin_if_new(sampler)) {
        sampler->left_bytes = ps_draw_trials(&sampler->random, ps_guard_period) - 1;
        if (sampler->left_bytes > 0) {
            return NULL;
        }
    }
    sampler->left_bytes = ps_draw_trials(&sampler->random, ps_guard_period);
    return ps_guard_make(bytes);
}

/* ---- bytes ---- */

int64_t ps_guard_count_bytes(struct ps_sampler *sampler, int64_t bytes, bool *is_due) {
    if (ps_guard_period == 0) {
        return INT64_MAX;
    }
    *is_due = true;
    if (ps_guard_is_exact()) {
        return PS_COUNT_EACH;
    }
    sampler->left_bytes -= bytes;
    *is_due = !begin_if_new(sampler) && sampler->left_bytes <= 0;
    if (sampler->left_bytes <= 0) { /* the process has no memory: those before do not matter */
        sampler->left_bytes = ps_draw_bytes(&sampler->random, sampler->interval_bytes);
    }
    return sampler->left_bytes;
}

/* For a request that has a point. Its weight, which takes long to compute, is less than
 * 1 + interval / bytes. */
static bool is_sample(struct ps_sampler *sampler, size_t bytes) {
    uint64_t all = (uint64_t)ps_guard_period * PS_DRAW_WEIGHT_ONE;
    uint64_t drawn = ps_draw_bits(&sampler->random) % all;
    bytes = ps_max(bytes, 1);
    return drawn / PS_DRAW_WEIGHT_ONE * bytes <= bytes + sampler->interval_bytes &&
           drawn < ps_draw_weight(bytes, sampler->interval_bytes);
}

PS_COLD void *ps_guard_sample_class(struct ps_sampler *sampler, uint32_t class_index,
                                    size_t requested, const struct ps_slab *slab) {
    (void)class_index;
    (void)slab;
    if (ps_guard_is_exact()) {
        return ps_guard_try(requested);
    }
    return is_sample(sampler, requested) ? ps_guard_make(requested) : NULL;
}

void *ps_guard_try_large(size_t bytes) {
    struct ps_front_words *words = &ps_front_thread;
    if (bytes > PS_GUARD_BYTES_LIMIT) {
        return NULL;
    }
    words->left_bytes -= (int64_t)bytes;
    return words->left_bytes < 0 && ps_front_count_bytes()
               ? ps_guard_sample_class(&words->sampler, PS_CLASS_NONE, bytes, NULL)
               : NULL;
}

/* ---- entry points ---- */

static void *try_above_classes(size_t bytes) {
    return bytes > ps_size_class_max_bytes ? ps_guard_try_large(bytes) : NULL;
}

void *ps_guard_alloc(size_t bytes) {
    void *sample = try_above_classes(bytes);
    return sample != NULL ? sample : ps_front_alloc_plain(bytes);
}

void *ps_guard_zalloc(size_t bytes) {
    void *sample = try_above_classes(bytes);
    return sample != NULL ? ps_bytes_zero_block(sample, bytes) : ps_front_zalloc_plain(bytes);
}
