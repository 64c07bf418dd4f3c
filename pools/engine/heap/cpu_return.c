/* SPDX-License-Identifier: MIT */
/*
 * See cpu_return.h. One call sets HELD in the classes of a cache that have unused blocks, and a
 * later one moves these blocks, as cpu_first.h says; meanwhile the threads of that processor
 * allocate without these classes.
 */
#include "pools/engine/heap/cpu_return.h"

#include "pools/engine/heap/cpu_first.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/turn.h"

#include <string.h>

#define BEHIND_MS 2        /* between two steps of a round, where nothing else reads the clock */
#define STEPS_WAITED 20    /* milliseconds */
#define WAITING_AT_ONCE 64 /* processors whose blocks all return after one sleep */

_Static_assert(PS_CLASS_LIMIT <= 64, "held_classes");

static uint64_t x_due_ms;    /* when the next round begins */
static uint32_t x_is_filled; /* a cache still had blocks in the last round */
static uint32_t x_holder;    /* lock id of the thread that returns blocks; 0: none */

/* Variables of that thread. */
static size_t next;           /* processor, of the round */
static uint64_t held_classes; /* of the processor before `next`, since held_us */
static uint64_t held_us;
static bool was_filled; /* as x_is_filled, in this round */

/* ---- one cache ---- */

static size_t idle_of(const struct ps_cpu_cache *cache, size_t class_index, bool is_all) {
    size_t count = ps_cpu_cache_count(cache, class_index);
    return is_all ? count : ps_min(count, ps_cpu_cache_low(cache, class_index));
}

/* Abandons a class with HELD, but without an owner: a sequence on a paused virtual processor was in
 * its last instruction when the class was released, and has stored the old state (rseq.h). The
 * blocks are no longer known, and remain used. */
static PS_COLD void give_up_class(struct ps_cpu_cache *cache, size_t class_index, uint64_t state) {
    uint64_t takes = state >> PS_CPU_STATE_TAKES_SHIFT << PS_CPU_STATE_TAKES_SHIFT;
    ps_cpu_cache_release(cache, class_index, takes);
}

/* Sets HELD in the classes that have unused blocks. Returns these classes. */
static uint64_t hold_classes(struct ps_cpu_cache *cache, bool is_all) {
    uint64_t held = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        uint64_t state = ps_cpu_cache_state(cache, i);
        if (PS_UNLIKELY((state & PS_CPU_STATE_HELD) != 0) && ps_rseq_is_on()) {
            give_up_class(cache, i, state); /* without sequences it is a push's or pop's */
        } else if (idle_of(cache, i, is_all) != 0) {
            bool is_held = ps_cpu_cache_hold(cache, i, state);
            held |= (uint64_t)is_held << i;
        } else {
            ps_cpu_cache_set_low(cache, i, ps_cpu_cache_count(cache, i));
        }
    }
    return held;
}

/* Removes the unused blocks of a held class, its oldest, and releases the class. Returns their
 * number. */
static size_t take_idle(struct ps_cpu_cache *cache, size_t class_index, bool is_all, void **taken) {
    uint64_t state = ps_cpu_cache_state(cache, class_index);
    if ((state & PS_CPU_STATE_HELD) == 0) {
        return 0; /* a sequence has stored over it */
    }
    size_t count = state & PS_CPU_STATE_COUNT;
    size_t idle = idle_of(cache, class_index, is_all);
    void **blocks = cache->blocks[class_index];
    cache->changing = (uint32_t)class_index;
    ps_fence_program_order(); /* for the child of a fork, each */
    memcpy(taken, blocks, idle * sizeof *taken);
    memmove(blocks, blocks + idle, (count - idle) * sizeof *blocks);
    ps_cpu_cache_set_low(cache, class_index, count - idle);
    if (idle == count) {
        ps_cpu_cache_set_limit(cache, class_index, 0);
    }
    ps_cpu_cache_release(cache, class_index, (state & ~(uint64_t)PS_CPU_STATE_HELD) - idle);
    ps_fence_program_order();
    cache->changing = PS_CPU_NO_CLASS;
    return idle;
}

/* The mark of a block becomes a link of its span's. */
static void give_back(void *block, ps_cpu_return *give) {
    const struct ps_span *span = ps_span_at(block);
    ps_cpu_cache_check(block);
    ps_link_store(block, ps_span_waiting_link(span));
    give(block);
}

static void judge_classes(struct ps_cpu_cache *cache) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_cpu_cache_judge(cache, i);
    }
}

static bool has_blocks(const struct ps_cpu_cache *cache) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (ps_cpu_cache_count(cache, i) != 0) {
            return true;
        }
    }
    return false;
}

/* Precondition: PS_ANSWER_US has passed since hold_classes. */
static void return_classes(struct ps_cpu_cache *cache, uint64_t classes, bool is_all,
                           ps_cpu_return *give) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        void *taken[PS_CPU_CACHE_BLOCKS];
        size_t count = (classes >> i & 1) != 0 ? take_idle(cache, i, is_all, taken) : 0;
        for (size_t k = 0; k < count; k++) {
            give_back(taken[k], give);
        }
    }
}

/* ---- rounds ---- */

/* Returns the unused blocks of held_classes; precondition as above. */
static void finish_held(bool is_all, ps_cpu_return *give) {
    uint64_t classes = held_classes;
    held_classes = 0;
    return_classes(ps_cpu_cache_at(next - 1), classes, is_all, give);
}

/* Sets HELD in the classes of a processor that have unused blocks. True: it has blocks. */
static bool begin_at(size_t index, bool is_all) {
    struct ps_cpu_cache *cache = ps_cpu_cache_at(index);
    if (cache == NULL) {
        return false;
    }
    judge_classes(cache);
    if (!has_blocks(cache)) {
        return false;
    }
    was_filled = true;
    held_classes = hold_classes(cache, is_all);
    held_us = ps_os_now_us();
    return true;
}

/* The next step of a round. False: the round is over. */
static bool step(bool is_all, ps_cpu_return *give) {
    if (held_classes != 0) {
        if (ps_os_now_us() - held_us < PS_ANSWER_US) {
            return true;
        }
        finish_held(is_all, give);
    }
    while (next < ps_cpu_cache_end()) {
        if (begin_at(next++, is_all)) {
            return true;
        }
    }
    return false;
}

uint32_t ps_cpu_return_tick(uint64_t now_ms, ps_cpu_return *give) {
    /* relaxed, all: hints; the holder writes them. */
    if (now_ms >= ps_load_relaxed(&x_due_ms)) {
        if (!ps_turn_begin(&x_holder)) {
            return BEHIND_MS;
        }
        bool has_more = step(!ps_retention_is_usual(), give);
        if (!has_more) {
            ps_store_relaxed(&x_is_filled, (uint32_t)was_filled);
            ps_store_relaxed(&x_due_ms, now_ms + ps_retention_interval_ms(PS_RETENTION_SCAN_MS));
            was_filled = false;
            next = 0;
        }
        ps_turn_end(&x_holder);
        if (has_more) {
            return BEHIND_MS;
        }
    }
    return ps_load_relaxed(&x_is_filled) != 0 ? PS_RETENTION_SCAN_MS / 4 : 0;
}

static void wait_ms(uint64_t ms) {
    uint32_t never = 0;
    ps_os_wait_ms(&never, 0, ms);
}

static void wait_for_answer(void) {
    uint64_t since_us = ps_os_now_us();
    while (ps_rseq_is_on() && ps_os_now_us() - since_us < PS_ANSWER_US) { /* ends: time */
        wait_ms(1);
    }
}

/* Begins, if necessary after another thread's step. */
static bool begin_after_others(void) {
    bool is_begun = ps_turn_begin(&x_holder);
    for (int i = 0; i < STEPS_WAITED && !is_begun; i++) {
        wait_ms(1);
        is_begun = ps_turn_begin(&x_holder);
    }
    return is_begun;
}

/* Returns all blocks of the processors from `first` on, up to WAITING_AT_ONCE of them. Returns the
 * next processor. */
static size_t return_some(size_t first, ps_cpu_return *give) {
    uint64_t classes[WAITING_AT_ONCE];
    size_t index[WAITING_AT_ONCE];
    size_t count = 0;
    size_t i = first;
    for (; i < ps_cpu_cache_end() && count < WAITING_AT_ONCE; i++) {
        struct ps_cpu_cache *cache = ps_cpu_cache_at(i);
        if (cache != NULL && has_blocks(cache)) {
            index[count] = i;
            classes[count++] = hold_classes(cache, true);
        }
    }
    if (count != 0) {
        wait_for_answer();
    }
    for (size_t k = 0; k < count; k++) {
        return_classes(ps_cpu_cache_at(index[k]), classes[k], true, give);
    }
    return i;
}

void ps_cpu_return_all(ps_cpu_return *give) {
    if (!begin_after_others()) {
        return;
    }
    if (held_classes != 0) {
        wait_for_answer();
        finish_held(true, give);
    }
    for (size_t i = 0; i < ps_cpu_cache_end();) {
        i = return_some(i, give);
    }
    ps_turn_end(&x_holder);
}

/* ---- forks ---- */

/* Releases all classes of the cache. Only the calling thread may own one, in a push or pop that a
 * signal handler has interrupted. */
static void free_classes(struct ps_cpu_cache *cache) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        uint64_t state = ps_cpu_cache_state(cache, i) & ~(uint64_t)PS_CPU_STATE_HELD;
        if (i == cache->changing) { /* entries may be there twice */
            state &= ~(uint64_t)PS_CPU_STATE_COUNT;
        }
        if (&cache->x_state[i] != ps_thread.cache_state) {
            ps_cpu_cache_release(cache, i, state);
        } else if (i == cache->changing) { /* held: the push or pop is about to fail */
            ps_cpu_cache_release(cache, i, state | PS_CPU_STATE_HELD);
        }
    }
    cache->changing = PS_CPU_NO_CLASS;
}

void ps_cpu_return_fork_child(void) {
    /* A class that another thread had locked then remains HELD, and unused. */
    if (ps_turn_is_own(&x_holder)) {
        return;
    }
    for (size_t i = 0; i < ps_cpu_cache_end(); i++) {
        struct ps_cpu_cache *cache = ps_cpu_cache_at(i);
        if (cache != NULL) {
            free_classes(cache);
        }
    }
    held_classes = 0;
    ps_turn_end(&x_holder);
}
