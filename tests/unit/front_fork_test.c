// marks: nightly
// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * Forks while other threads allocate, free and return blocks, by sequences and without: each child
 * takes all free blocks. None is had twice, and none is live in the parent's threads. By night, for
 * its length.
 */
#include "pools/engine/page/medium.h"
#include "tests/slowness.h"
#include "tests/unit/front_ways.h"

#include <pthread.h>

#define THREADS 4
#define SLOTS 3000
#define FORKS (60 / FRESH_SLOWNESS)
#define SECONDS_OF_CHILD 60

/* Each moment's batches, windows and streaks of threads that the child does not have. */
#define LOST_MOST 20000

static const size_t sizes[] = {16, 200, 3000, 8000};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define TAKEN_MOST 200000

/* What each thread certainly has, with its number in the first word. */
static uint64_t *slots[THREADS][SLOTS];
static uint32_t x_is_over;

static void free_slot(uint64_t **slot, uint64_t number) {
    uint64_t *block = *slot;
    if (block != NULL) {
        REQUIRE(block[0] == number);
        *slot = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a child that is forked now frees it no more */
        ps_heap_free(block);
    }
}

static void fill_slot(uint64_t **slot, uint64_t number, size_t bytes) {
    uint64_t *block = ps_heap_alloc(bytes);
    REQUIRE(block != NULL);
    block[0] = number;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a child finds it whole */
    *slot = block;
}

static void *use_blocks(void *argument) {
    uint64_t number = (uintptr_t)argument;
    uint64_t **own = slots[number - 1];
    uint64_t random = number;
    for (uint64_t round = 0; ps_load_relaxed(&x_is_over) == 0; round++) {
        size_t bytes = sizes[engine_random(&random) % SIZES];
        size_t first = engine_random(&random) % SLOTS;
        size_t count = engine_random(&random) % ps_min(SLOTS - first, 400);
        for (size_t i = first; i < first + count; i++) {
            free_slot(&own[i], number); /* neighbours, often: streaks */
        }
        for (size_t i = first; i < first + count; i += round % 2 + 1) {
            fill_slot(&own[i], number, bytes);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        free_slot(&own[i], number);
    }
    return NULL;
}

static void *return_blocks(void *unused) {
    (void)unused;
    for (uint64_t round = 0; ps_load_relaxed(&x_is_over) == 0; round++) {
        ps_front_return_idle(round % 4 == 0, false);
        ps_store_drop_drained(true);
        (void)ps_store_purge_all();
    }
    return NULL;
}

/* ---- the child ---- */

static uint64_t *taken[TAKEN_MOST];

/* More of the class than its slabs have. Each is marked as had. */
static size_t take_all(uint32_t class_index, const struct ps_census_class *class) {
    size_t count = 0;
    size_t wanted = class->slabs * ps_class_capacity(class_index) + 1;
    REQUIRE(wanted <= TAKEN_MOST);
    for (; count < wanted; count++) {
        taken[count] = ps_heap_alloc(class->block_bytes);
        REQUIRE(taken[count] != NULL);
        REQUIRE(taken[count][0] != UINT64_MAX - class_index);
        taken[count][0] = UINT64_MAX - class_index;
    }
    return count;
}

static void free_taken(size_t count) {
    for (size_t i = 0; i < count; i++) {
        taken[i][0] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(taken[i]);
    }
}

static void check_in_child(void) {
    struct ps_census census = engine_census();
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t class_index = ps_size_class_of(sizes[s]);
        free_taken(take_all(class_index, &census.classes[class_index]));
    }
    for (uint64_t number = 1; number <= THREADS; number++) {
        for (size_t i = 0; i < SLOTS; i++) {
            free_slot(&slots[number - 1][i], number);
        }
    }
    ps_maintenance_trim(0);
    census = engine_census();
    CHECK_CMP(census_live_blocks(&census), <=, LOST_MOST);
    for (uint32_t i = 0; i < census.class_count; i++) {
        CHECK_EQ(ps_front_blocks(i) + ps_windows_blocks(i), 0);
    }
}

static void check_forks(enum way way) {
    pthread_t threads[THREADS + 1];
    if (!start_in_way(way)) {
        return;
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, use_blocks, (void *)(i + 1)) == 0);
    }
    REQUIRE(pthread_create(&threads[THREADS], NULL, return_blocks, NULL) == 0);
    for (int i = 0; i < FORKS && unit_failures == 0; i++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            slowness_alarm(SECONDS_OF_CHILD);
            check_in_child();
        }
        unit_join_child(pid);
    }
    ps_store_relaxed(&x_is_over, 1u);
    for (size_t i = 0; i <= THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.small_slab_bytes, 0);
}

static void check_forks_locked(void) { check_forks(WAY_LOCKED); }
static void check_forks_with_sequences(void) { check_forks(WAY_SEQUENCES); }

TEST(a_child_has_every_block_once) {
    fresh_run(check_forks_locked);
    fresh_run(check_forks_with_sequences);
}

UNIT_MAIN
