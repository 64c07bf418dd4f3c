// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * A cache of a processor under more threads than there are processors, with signals among them,
 * while another thread returns what it has: each block is with one thread at a time. By restartable
 * sequences where threads are registered for them, and without.
 */
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/cpu_first.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/record/census.h"
#include "tests/unit/fresh.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define THREADS 8
#define ROUNDS 1000000
#define SLOTS 64
#define BYTES 48

static uint32_t x_ended;
static uint64_t x_signals;
static bool without_sequences;
static pthread_barrier_t all_have_heaps;

/* What the program does with a block that is its own alone. */
static void stamp(uint64_t *block, uint64_t own) {
    for (size_t i = 0; i < BYTES / sizeof *block; i++) {
        block[i] = own;
    }
}

static void check_stamp(const uint64_t *block, uint64_t own) {
    for (size_t i = 0; i < BYTES / sizeof *block; i++) {
        REQUIRE(block[i] == own);
    }
}

static void replace(uint64_t **slot, uint64_t own) {
    if (*slot != NULL) {
        check_stamp(*slot, own);
        ps_heap_free(*slot);
    }
    *slot = ps_heap_alloc(BYTES);
    REQUIRE(*slot != NULL);
    stamp(*slot, own);
}

static void *run(void *number) {
    uint64_t own = (uintptr_t)number;
    uint64_t *slots[SLOTS] = {NULL};
    uint32_t random = (uint32_t)own;
    replace(&slots[0], own);
    pthread_barrier_wait(&all_have_heaps);
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        replace(&slots[random / 65536 % SLOTS], own);
    }
    for (int i = 0; i < SLOTS; i++) {
        ps_heap_free(slots[i]);
    }
    (void)ps_add_relaxed(&x_ended, 1u); /* relaxed: a hint */
    return NULL;
}

/* Aborts a sequence, and is nested in a push or pop without them. */
static void on_signal(int number) {
    (void)number;
    (void)ps_add_relaxed(&x_signals, (uint64_t)1); /* relaxed: a count */
}

static void interrupt_every_us(long us) {
    struct itimerval every = {{0, us}, {0, us}};
    REQUIRE(signal(SIGALRM, on_signal) != SIG_ERR);
    REQUIRE(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void check_threads(void) {
    pthread_t threads[THREADS];
    ps_engine_start();
    ps_background_count_cpus();
    if (without_sequences) {
        ps_rseq_offset = 0;
    }
    ps_cpu_may_be_first = true;
    REQUIRE(pthread_barrier_init(&all_have_heaps, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    }
    interrupt_every_us(200);
    for (uint64_t now_ms = 0; ps_load_relaxed(&x_ended) < THREADS; now_ms += 100) {
        ps_thread_enter();
        (void)ps_cpu_return_tick(now_ms, ps_remote_return);
        if (now_ms % 1000 == 0) {
            ps_cpu_return_all(ps_remote_return);
        }
        ps_thread_leave();
    }
    interrupt_every_us(0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_CMP(x_signals, >, 0);
    CHECK_CMP(ps_cpu_cache_takes(), >, (uint64_t)THREADS * ROUNDS / 10);
    ps_heap_trim(0);
    struct ps_census census;
    ps_census_take(&census);
    CHECK_EQ(census.small_live_bytes, 0);
    CHECK_EQ(census.malloc_count, census.free_count);
}

FRESH_TEST(each_block_is_with_one_thread) { check_threads(); }

FRESH_TEST(each_block_is_with_one_thread_without_restartable_sequences) {
    without_sequences = true;
    check_threads();
}

/* ---- sequences ---- */

#define MASK (PS_CPU_STATE_COUNT | PS_CPU_STATE_HELD)

static uint64_t state;
static void *entries[4];

static bool push(uint32_t cpu, void *entry) {
    return ps_rseq_push(ps_rseq_offset, cpu, &state, entries, MASK, 4, entry);
}

static void *pop(uint32_t cpu, uint32_t *left) {
    return ps_rseq_pop(ps_rseq_offset, cpu, &state, entries, MASK, 4, PS_CPU_STATE_POPPED, left);
}

static void push_here(void *entry) {
    int tries = 0;
    while (!push(ps_rseq_cpu(ps_rseq_offset), entry)) { /* it may be moved or interrupted */
        REQUIRE(++tries < 1000);
    }
}

static void *pop_here(uint32_t *left) {
    void *entry = NULL;
    for (int i = 0; i < 1000 && entry == NULL; i++) {
        entry = pop(ps_rseq_cpu(ps_rseq_offset), left);
    }
    return entry;
}

FRESH_TEST(a_sequence_pushes_up_to_the_limit_and_pops_the_newest) {
    int blocks[5];
    uint32_t left;
    ps_rseq_start();
    if (!ps_rseq_is_on()) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        push_here(&blocks[i]);
    }
    CHECK_EQ(state, 4);
    CHECK(!push(ps_rseq_cpu(ps_rseq_offset), &blocks[4]));
    for (uint32_t i = 4; i-- > 0;) {
        CHECK_EQ(pop_here(&left), &blocks[i]);
        CHECK_EQ(left, i);
    }
    CHECK_EQ(state, (uint64_t)4 << PS_CPU_STATE_TAKES_SHIFT);
    CHECK_EQ(pop(ps_rseq_cpu(ps_rseq_offset), &left), NULL);
}

FRESH_TEST(a_sequence_leaves_a_held_class_and_another_processor_alone) {
    int block;
    uint32_t left;
    ps_rseq_start();
    if (!ps_rseq_is_on()) {
        return;
    }
    push_here(&block);
    CHECK(!push(PS_CPU_CACHES + 1, &block));
    CHECK_EQ(pop(PS_CPU_CACHES + 1, &left), NULL);
    state |= PS_CPU_STATE_HELD;
    CHECK(!push(ps_rseq_cpu(ps_rseq_offset), &block));
    CHECK_EQ(pop(ps_rseq_cpu(ps_rseq_offset), &left), NULL);
    CHECK_EQ(state, 1 | PS_CPU_STATE_HELD);
}

/* A sequence that ends when the class has been released may undo that: see cpu_return.c. */
FRESH_TEST(a_class_that_no_thread_holds_is_given_up) {
    static struct ps_cpu_cache cache = {.changing = PS_CPU_NO_CLASS};
    uint64_t takes = (uint64_t)7 << PS_CPU_STATE_TAKES_SHIFT;
    ps_engine_start();
    if (!ps_rseq_is_on()) {
        return;
    }
    cache.x_state[2] = takes | PS_CPU_STATE_HELD | 3; /* of blocks that are no longer there */
    ps_cpu_x_caches[0] = &cache;
    ps_cpu_x_end = 1;
    ps_cpu_return_all(ps_remote_return);
    CHECK_EQ(cache.x_state[2], takes);
}

UNIT_MAIN
