// marks: nightly
// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * Fronts that are emptied while other threads push and pop, begin, or stand still within a
 * sequence: each block is with one thread at a time.
 */
#include "tests/unit/front_blocks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

/* ---- many threads ---- */

#define THREADS 6
#define ROUNDS (4000000 / FRESH_SLOWNESS)
#define SLOTS 64

static uint32_t x_ended;
static uint64_t x_signals;

static void stamp(uint64_t *block, uint64_t number) {
    for (size_t i = 0; i < BYTES / sizeof *block; i++) {
        block[i] = number;
    }
}

static void check_stamp(const uint64_t *block, uint64_t number) {
    for (size_t i = 0; i < BYTES / sizeof *block; i++) {
        REQUIRE(block[i] == number);
    }
}

static void replace(uint64_t **slot, uint64_t number) {
    if (*slot != NULL) {
        check_stamp(*slot, number);
        ps_heap_free(*slot);
    }
    *slot = ps_heap_alloc(BYTES);
    stamp(*slot, number);
}

static void free_and_end(uint64_t **slots) {
    for (size_t i = 0; i < SLOTS; i++) {
        ps_heap_free(slots[i]);
    }
    ps_add_relaxed(&x_ended, 1u);
}

static void *replace_blocks(void *number) {
    uint64_t mine = (uintptr_t)number;
    uint64_t *slots[SLOTS] = {NULL};
    uint64_t random = mine;
    for (int round = 0; round < ROUNDS; round++) {
        replace(&slots[engine_random(&random) % SLOTS], mine);
    }
    free_and_end(slots);
    return NULL;
}

static void count_signal(int number) {
    (void)number;
    ps_add_relaxed(&x_signals, (uint64_t)1);
}

/* Aborts sequences, wherever they are. */
static void send_signals(bool is_on) {
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, is_on ? 200 : 0}, {0, is_on ? 200 : 0}};
    REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
    REQUIRE(setitimer(ITIMER_PROF, &often, NULL) == 0);
}

static void check_threads(enum way way) {
    pthread_t threads[THREADS];
    if (!start_in_way(way)) {
        return;
    }
    class_index = ps_size_class_of(BYTES);
    uint64_t takes = ps_front_takes(class_index);
    for (uintptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, replace_blocks, (void *)(i + 1)) == 0);
    }
    send_signals(true);
    for (uint64_t round = 0; ps_load_relaxed(&x_ended) < THREADS; round++) {
        ps_front_return_idle(round % 4 == 0, false);
        ps_store_drop_drained(true);
        sched_yield();
    }
    send_signals(false);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_CMP(ps_front_takes(class_index) - takes, >, (uint64_t)THREADS * ROUNDS / 10);
    CHECK_CMP(ps_load_relaxed(&x_signals), >, 0);
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.small_slab_bytes, 0);
    CHECK_EQ(census.malloc_count, census.free_count);
}

static void check_threads_locked(void) { check_threads(WAY_LOCKED); }
static void check_threads_with_sequences(void) { check_threads(WAY_SEQUENCES); }

TEST(each_block_is_with_one_thread_while_fronts_are_emptied) {
    fresh_run(check_threads_locked);
    fresh_run(check_threads_with_sequences);
}

/* ---- a sequence on a paused processor ---- */

static void *return_all(void *unused) {
    (void)unused;
    ps_front_return_idle(true, false);
    return NULL;
}

static struct ps_front *front_in_use(void) {
    for (size_t id = 0; id < PS_FRONTS; id++) {
        struct ps_front *front = ps_front_table.x_fronts[id];
        if (front != NULL && (front->x_state[class_index] & PS_FRONT_COUNT) != 0) {
            return front;
        }
    }
    return NULL;
}

static void spin(uint64_t times) {
    for (uint64_t i = 0; i < times; i++) {
        ps_cpu_relax();
    }
}

/* What a sequence has done that began before the blocks return, and whose store comes so late. Then
 * the thread goes on. No block is had twice: popped, and in the store as well. */
static void stand_still(size_t pushed, bool is_push, uint64_t spins) {
    pthread_t thread;
    for (size_t i = 0; i < pushed; i++) {
        CHECK(push(blocks[i]));
    }
    struct ps_front *front = front_in_use();
    REQUIRE(front != NULL);
    uint64_t *state = &front->x_state[class_index];
    uint64_t before = ps_load_relaxed(state);
    void **top = &front->x_entries[ps_front_table.places[class_index].first + pushed];
    void *had = is_push ? NULL : top[-1];
    if (is_push) {
        ps_mark_set(blocks[pushed]);
        top[0] = blocks[pushed];
    }
    REQUIRE(pthread_create(&thread, NULL, return_all, NULL) == 0);
    spin(spins);
    ps_store_release(state, before + (is_push ? 1 : PS_FRONT_POPPED));
    bool is_out[BLOCKS] = {false};
    for (void *block = had != NULL ? had : pop(); block != NULL; block = pop()) {
        for (size_t i = 0; i <= pushed; i++) {
            if (blocks[i] == block) {
                CHECK(!is_out[i]);
                is_out[i] = true;
            }
        }
    }
    pthread_join(thread, NULL);
    ps_front_reset(own(), class_index);
    for (size_t i = 0; i <= pushed; i++) {
        CHECK(!(is_out[i] && is_in_store(blocks[i])));
    }
    CHECK(is_out[is_push ? pushed : pushed - 1]);
}

static uint64_t still_round;

static void check_standing_still(void) {
    if (begin(WAY_SEQUENCES, BYTES)) {
        raise_to(64);
        stand_still(1 + still_round % 40, still_round % 2 != 0, still_round * still_round * 20);
    }
}

TEST(a_paused_sequence_gets_no_block_that_returns) {
    for (still_round = 0; still_round < 100; still_round++) { /* each in an engine of its own */
        fresh_run(check_standing_still);
    }
}

/* ---- the only thread, and one that begins ---- */

#define BEGINNINGS (800 / FRESH_SLOWNESS)
#define STEPS_OF_ONE 300

static pthread_barrier_t both_are_ready;

static void *begin_and_replace(void *number) {
    uint64_t mine = (uintptr_t)number;
    uint64_t *slots[SLOTS] = {NULL};
    pthread_barrier_wait(&both_are_ready);
    for (size_t i = 0; i < STEPS_OF_ONE; i++) {
        replace(&slots[i * 7 % SLOTS], mine);
    }
    free_and_end(slots);
    return NULL;
}

static void check_beginnings(enum way way) {
    if (!start_in_way(way)) {
        return;
    }
    REQUIRE(pthread_barrier_init(&both_are_ready, NULL, 2) == 0);
    for (uintptr_t i = 1; i <= BEGINNINGS; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, begin_and_replace, (void *)i) == 0);
        pthread_barrier_wait(&both_are_ready);
        while (ps_load_relaxed(&x_ended) < i) {
            ps_front_return_shared(true, false);
        }
        pthread_join(thread, NULL);
    }
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.small_slab_bytes, 0);
}

static void check_beginnings_locked(void) { check_beginnings(WAY_LOCKED); }
static void check_beginnings_with_sequences(void) { check_beginnings(WAY_SEQUENCES); }

TEST(a_thread_begins_while_the_only_other_one_empties_all_fronts) {
    fresh_run(check_beginnings_locked);
    fresh_run(check_beginnings_with_sequences);
}

UNIT_MAIN
