// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, pass on and free at the same time, come and go, while others take the
 * census and trim. Patterns show when two threads had the same memory; under ThreadSanitizer, so
 * does a missing order between the free of a block and its next allocation.
 */
#include "tests/unit/engine.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define EXCHANGE_SLOTS 512
#define STEPS (FRESH_SLOWNESS > 2 ? 6000 : 30000)

/* Where threads leave blocks for each other. A slot is taken by an exchange with NULL. */
static struct live_block *exchange[EXCHANGE_SLOTS];
static uint32_t x_is_over;

/* The description of a block travels in libc's memory, so that the block itself is all pattern. */
static struct live_block *make_block(size_t bytes, uint64_t seed) {
    struct live_block *live = malloc(sizeof *live);
    REQUIRE(live != NULL);
    live_start(live, ps_heap_alloc(bytes), bytes, seed);
    REQUIRE(live->address != NULL);
    return live;
}

static void end_block(struct live_block *live) {
    if (live != NULL) {
        live_end(live);
        free(live);
    }
}

/* Swaps a block with that of a slot: acquire and release, as any queue would. */
static struct live_block *swap_block(size_t slot, struct live_block *live) {
    return __atomic_exchange_n(&exchange[slot], live, __ATOMIC_ACQ_REL);
}

static void end_exchange(void) {
    for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
        end_block(swap_block(i, NULL));
    }
}

static size_t small_size(uint64_t *state) { return engine_random(state) % 600; }

/* ---- any thread frees any block ---- */

static void *mix(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
    for (int step = 0; step < STEPS; step++) {
        size_t slot = engine_random(&state) % EXCHANGE_SLOTS;
        uint64_t kind = engine_random(&state) % 100;
        size_t bytes = kind < 97 ? small_size(&state) : engine_random_size(&state);
        struct live_block *other = swap_block(slot, kind < 50 ? make_block(bytes, state) : NULL);
        if (other != NULL && kind == 98) {
            CHECK(live_resize(other, bytes + 1, state));
        }
        end_block(other);
    }
    return NULL;
}

static void start(pthread_t *threads, void *(*run)(void *), size_t first, size_t count) {
    ps_engine_start(); /* as in a program, before it has threads */
    for (size_t i = first; i < first + count; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    }
}

static void join(pthread_t *threads, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        pthread_join(threads[i], NULL);
    }
}

FRESH_TEST(any_thread_frees_any_block_at_any_time) {
    pthread_t threads[THREADS];
    start(threads, mix, 0, THREADS);
    join(threads, 0, THREADS);
    end_exchange();
    check_live_blocks(0);
}

/* ---- producers and consumers ---- */

static struct live_block *rings[2][1024]; /* one per pair, in sequence */

static void *produce(void *argument) {
    size_t pair = (uintptr_t)argument - 1;
    uint64_t state = 17 + pair;
    for (size_t i = 0; i < STEPS; i++) {
        struct live_block **slot = &rings[pair][i % 1024];
        while (ps_load_acquire(slot) != NULL) {
            sched_yield();
        }
        size_t bytes = i / 2000 % 2 == 0 ? 64 : small_size(&state);
        ps_store_release(slot, make_block(bytes, i));
    }
    return NULL;
}

static void *consume(void *argument) {
    size_t pair = (uintptr_t)argument - 3;
    for (size_t i = 0; i < STEPS; i++) {
        struct live_block **slot = &rings[pair][i % 1024];
        struct live_block *live = ps_load_acquire(slot);
        while (live == NULL) {
            sched_yield();
            live = ps_load_acquire(slot);
        }
        ps_store_release(slot, (struct live_block *)NULL);
        end_block(live);
    }
    return NULL;
}

FRESH_TEST(blocks_freed_by_consumers_return_to_producers) {
    pthread_t threads[4];
    start(threads, produce, 0, 2);
    start(threads, consume, 2, 2);
    join(threads, 0, 4);
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_CMP(census.arena_bytes, <=, 64 * MIB); /* rings of 1024 blocks never need more */
}

/* ---- threads come and go ---- */

static void *live_shortly(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument * 31 + 5;
    for (int i = 0; i < 60; i++) {
        size_t slot = engine_random(&state) % EXCHANGE_SLOTS;
        end_block(swap_block(slot, make_block(small_size(&state), state)));
    }
    return NULL;
}

static void *start_short_threads(void *argument) {
    size_t self = (uintptr_t)argument;
    for (size_t i = 0; i < STEPS / 150; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, live_shortly, (void *)(self * 1000 + i)) == 0);
        pthread_join(thread, NULL);
    }
    return NULL;
}

FRESH_TEST(threads_that_come_and_go_leave_nothing) {
    pthread_t threads[3];
    start(threads, start_short_threads, 0, 3);
    join(threads, 0, 3);
    end_exchange();
    check_live_blocks(0);
    ps_maintenance_trim(0);
    CHECK_EQ(engine_census().small_slab_bytes, 0);
}

/* ---- census, trims and time beside all that ---- */

static void *watch(void *argument) {
    uint64_t state = (uintptr_t)argument;
    while (!ps_load_relaxed(&x_is_over)) {
        struct ps_census census = engine_census();
        CHECK_CMP(census.small_live_bytes, <=, census.small_slab_bytes);
        fake_os_advance_ms(engine_random(&state) % 100);
        if (engine_random(&state) % 4 == 0) {
            ps_maintenance_trim(engine_random(&state) % MIB);
        }
        sched_yield();
    }
    return NULL;
}

FRESH_TEST(census_trims_and_time_beside_busy_threads_disturb_nothing) {
    pthread_t threads[4];
    start(threads, mix, 0, 2);
    start(threads, start_short_threads, 2, 1);
    start(threads, watch, 3, 1);
    join(threads, 0, 3);
    ps_store_relaxed(&x_is_over, 1u);
    join(threads, 3, 1);
    end_exchange();
    check_live_blocks(0);
}

/* ---- memory runs out now and then ---- */

static void *run_out(void *argument) {
    uint64_t state = (uintptr_t)argument;
    for (int step = 0; step < STEPS / 2; step++) {
        size_t bytes = engine_random_size(&state);
        struct live_block *live = malloc(sizeof *live);
        REQUIRE(live != NULL);
        live_start(live, ps_heap_alloc(bytes), bytes, state);
        if (live->address == NULL) {
            free(live);
            live = NULL;
        }
        end_block(swap_block(engine_random(&state) % EXCHANGE_SLOTS, live));
    }
    return NULL;
}

static void *refuse_at_times(void *unused) {
    (void)unused;
    while (!ps_load_relaxed(&x_is_over)) {
        fake_os_refuse(FAKE_OS_ALL & ~FAKE_OS_BIT(FAKE_OS_RELEASE));
        sched_yield();
        fake_os_refuse(0);
        sched_yield();
    }
    return NULL;
}

FRESH_TEST(threads_that_meet_refusals_of_the_system_lose_nothing) {
    pthread_t threads[4];
    engine_config.mmap_min_bytes = 128 * KIB;
    start(threads, run_out, 0, 3);
    start(threads, refuse_at_times, 3, 1);
    join(threads, 0, 3);
    ps_store_relaxed(&x_is_over, 1u);
    join(threads, 3, 1);
    end_exchange();
    check_live_blocks(0);
}

UNIT_MAIN
