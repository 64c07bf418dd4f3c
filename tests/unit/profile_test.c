// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The sampled profile: how often each call site is sampled, whatever the
 * order of its calls, and what becomes of sampled blocks. The trace hook names the site that the
 * test has set. The seeds are fixed, so that each sum is the same in every run; it is compared with
 * the exact one by the standard deviation of the estimate.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/profile/profile.h"
#include "tests/unit/engine.h"

#include <math.h>
#include <pthread.h>

#define SITES 8
#define INTERVAL ((size_t)16 * KIB)
#define SIGMAS 4.0

static __thread uintptr_t site;

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit;
    (void)instruction;
    sites[0] = site;
    return 1;
}

static void start(size_t interval_bytes, uint32_t seed) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = interval_bytes;
    engine_config.profile_seed = seed;
    ps_engine_start();
}

/* ---- exact sums of what this test allocates ---- */

static struct exact {
    double blocks;
    double bytes;
    double variance; /* of the sampled bytes */
    double live_bytes;
    double live_variance;
} exact[SITES];

static double variance_of(size_t bytes) {
    double b = (double)bytes;
    double hit = -expm1(-b / (double)ps_profile_settings.x_interval_bytes);
    return b * b * (1 - hit) / hit;
}

static void *count_in(void *block, uintptr_t at) {
    REQUIRE(block != NULL);
    size_t bytes = ps_block_usable(block);
    exact[at].blocks++;
    exact[at].bytes += (double)bytes;
    exact[at].variance += variance_of(bytes);
    exact[at].live_bytes += (double)bytes;
    exact[at].live_variance += variance_of(bytes);
    return block;
}

static void *take(size_t bytes, uintptr_t at) {
    site = at;
    return count_in(ps_heap_alloc(bytes), at);
}

static void drop(void *block, uintptr_t at) {
    size_t bytes = ps_block_usable(block);
    exact[at].live_bytes -= (double)bytes;
    exact[at].live_variance -= variance_of(bytes);
    ps_heap_free(block);
}

static struct ps_profile_sums sums_of(uintptr_t at) {
    struct ps_profile_sums sums = {0};
    const struct ps_profile_stack *stack = NULL;
    while ((stack = ps_profile_next(stack)) != NULL) {
        if (stack->count == 1 && stack->sites[0] == at) {
            ps_profile_read_sums(stack, &sums);
        }
    }
    return sums;
}

static void check_near(const char *what, double sampled, double true_sum, double variance) {
    double off = fabs(sampled - true_sum) / sqrt(variance + 1);
    if (off > SIGMAS) {
        printf("%s: %.0f sampled, %.0f true, %.1f standard deviations\n", what, sampled, true_sum,
               off);
    }
    CHECK(off <= SIGMAS);
}

static void check_sites(const char *pattern) {
    for (uintptr_t at = 0; at < SITES; at++) {
        if (exact[at].blocks == 0) {
            continue;
        }
        struct ps_profile_sums sums = sums_of(at);
        check_near(pattern, (double)sums.made_bytes, exact[at].bytes, exact[at].variance);
        check_near(pattern, (double)sums.live_bytes, exact[at].live_bytes, exact[at].live_variance);
    }
}

/* ---- each site is sampled as often as its bytes demand ---- */

#define ROUNDS 200000

/* Two sites take turns at one block: an event every so many frees would see one of them only. */
static void take_turns(size_t bytes) {
    for (int i = 0; i < ROUNDS; i++) {
        uintptr_t at = (uintptr_t)i % 2;
        drop(take(bytes, at), at);
    }
    check_sites("turns");
}

FRESH_TEST(sites_that_take_turns_at_a_small_block) {
    start(INTERVAL, 1);
    take_turns(24);
}

FRESH_TEST(sites_that_take_turns_at_a_block_of_a_long_span) {
    start(INTERVAL, 2);
    take_turns(6000);
}

FRESH_TEST(sites_that_take_turns_at_a_medium_block) {
    start(1 * MIB, 3);
    take_turns(100000);
}

/* The first of a group follows a free, the others do not. */
static void nest(size_t bytes, int depth) {
    void *blocks[SITES];
    for (int i = 0; i < ROUNDS / depth; i++) {
        for (int j = 0; j < depth; j++) {
            blocks[j] = take(bytes, (uintptr_t)j);
        }
        for (int j = 0; j < depth; j++) {
            drop(blocks[j], (uintptr_t)j);
        }
    }
}

FRESH_TEST(sites_of_a_nest) {
    start(INTERVAL, 4);
    nest(200, 5);
    check_sites("nest, 200");
}

FRESH_TEST(sites_of_a_nest_in_long_slabs) {
    start(4 * INTERVAL, 5);
    nest(8000, SITES);
    check_sites("nest, 8000");
}

FRESH_TEST(sites_of_blocks_across_maintenance) {
    start(INTERVAL, 10);
    void *kept = take(24, 0);
    for (int i = 0; i < ROUNDS; i++) {
        drop(take(24, 0), 0);
        if (i % 16 == 0) {
            ps_front_flush();
        }
    }
    check_sites("maintenance");
    drop(kept, 0);
}

FRESH_TEST(sites_of_one_class_and_several_sizes) {
    start(INTERVAL, 6);
    uint64_t random = 6;
    for (int i = 0; i < ROUNDS; i++) {
        uintptr_t at = engine_random(&random) % SITES;
        drop(take(1 + at * 40, at), at);
    }
    check_sites("sizes");
}

/* A heap that grows and is freed in order of address, by streaks. */
FRESH_TEST(sites_of_blocks_freed_in_order) {
    start(INTERVAL, 7);
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = take(48, (uintptr_t)i % 3);
        }
        for (int i = 0; i < BLOCKS; i++) {
            drop(blocks[i], (uintptr_t)i % 3);
        }
    }
    check_sites("in order, 48");
}

/* Live at the end: half of them. */
static void live_randomly(int rounds, uint64_t random) {
    enum { SLOTS = 2000 };
    static void *slots[SLOTS];
    static uintptr_t made_at[SLOTS];
    for (int i = 0; i < rounds; i++) {
        size_t slot = engine_random(&random) % SLOTS;
        if (slots[slot] != NULL) {
            drop(slots[slot], made_at[slot]);
            slots[slot] = NULL;
        } else {
            size_t bytes = engine_random_size(&random);
            made_at[slot] = bytes < 64 ? 0 : bytes < KIB ? 1 : bytes < 8 * KIB ? 2 : 3;
            slots[slot] = take(bytes, made_at[slot]);
        }
    }
}

FRESH_TEST(random_lives_of_all_sizes) {
    start(INTERVAL, 8);
    live_randomly(ROUNDS, 8);
    check_sites("random lives");
}

FRESH_TEST(zeroed_and_aligned_blocks_count) {
    start(INTERVAL, 9);
    uint64_t random = 9;
    for (int i = 0; i < ROUNDS / 10; i++) {
        size_t bytes = 1 + engine_random(&random) % (i % 16 == 0 ? 200000 : 3000);
        site = 0;
        char *zeroed = count_in(ps_block_zalloc(bytes), 0);
        CHECK(zeroed[0] == 0 && zeroed[bytes - 1] == 0);
        memset(zeroed, 1, bytes);
        site = 1;
        size_t align = (size_t)16 << engine_random(&random) % 9;
        void *aligned = count_in(ps_block_alloc_aligned(bytes, align), 1);
        CHECK_EQ((uintptr_t)aligned % align, 0);
        memset(aligned, 1, bytes);
        drop(zeroed, 0);
        drop(aligned, 1);
    }
    check_sites("zeroed and aligned");
}

/* ---- sampled blocks ---- */

static bool is_sampled(const void *block) {
    const struct ps_slot *slot = ps_page_map_slot(block);
    return slot->run.kind == PS_RUN_MEDIUM && ps_medium_is_sampled(slot, block);
}

static uint64_t live_count(void) {
    uint64_t weight = 0;
    struct ps_profile_sums sums;
    const struct ps_profile_stack *stack = NULL;
    while ((stack = ps_profile_next(stack)) != NULL) {
        ps_profile_read_sums(stack, &sums);
        weight += sums.live_weight;
    }
    return weight;
}

FRESH_TEST(a_sampled_block_is_like_others) {
    start(1, 1); /* every block, except a few of 8 bytes */
    for (size_t bytes = 16; bytes <= 6 * MIB; bytes = bytes * 3 / 2) {
        char *block = ps_heap_alloc(bytes);
        REQUIRE(block != NULL);
        bool is_large = bytes > PS_MEDIUM_BYTES_LIMIT;
        CHECK(is_large || is_sampled(block));
        CHECK_EQ((uintptr_t)block % 16, 0);
        size_t usable = ps_block_usable(block);
        CHECK_CMP(usable, >=, bytes);
        memset(block, 0x5a, usable);
        CHECK_EQ(ps_block_usable(ps_block_resize(block, usable)), usable);
        char *grown = ps_block_resize(block, usable * 2);
        REQUIRE(grown != NULL);
        CHECK(grown[0] == 0x5a && grown[usable - 1] == 0x5a);
        char *shrunk = ps_block_resize(grown, bytes / 3 + 1);
        CHECK(shrunk[0] == 0x5a && shrunk[bytes / 3] == 0x5a);
        CHECK(live_count() >= PS_DRAW_WEIGHT_ONE && live_count() < 2 * PS_DRAW_WEIGHT_ONE);
        ps_heap_free(shrunk);
        CHECK_EQ(live_count(), 0);
    }
}

FRESH_TEST(the_census_counts_sampled_blocks) {
    start(1, 1);
    struct ps_census before = engine_census();
    void *small = ps_heap_alloc(100);
    void *medium = ps_heap_alloc(100000);
    struct ps_census with = engine_census();
    CHECK_EQ(with.run_live_count, before.run_live_count + 2);
    CHECK_CMP(with.run_live_bytes, >=, before.run_live_bytes + 100000 + 4096);
    ps_heap_free(small);
    ps_heap_free(medium);
    struct ps_census after = engine_census();
    CHECK_EQ(after.run_live_count, before.run_live_count);
    CHECK_EQ(after.run_live_bytes, before.run_live_bytes);
}

FRESH_TEST(a_sampled_medium_block_grows_in_place) {
    start(1, 1);
    char *block = ps_heap_alloc(64 * KIB);
    char *at = block;
    for (size_t bytes = 68 * KIB; bytes <= 400 * KIB; bytes += 4 * KIB) {
        block = ps_block_resize(block, bytes);
        REQUIRE(block != NULL && is_sampled(block));
        CHECK_EQ(ps_block_usable(block), bytes);
        CHECK_EQ(sums_of(0).live_bytes, bytes);
    }
    CHECK_PTR_EQ(block, at);
    ps_heap_free(block);
    CHECK_EQ(live_count(), 0);
}

FRESH_TEST(blocks_that_grow_in_place_stay_counted) {
    start(INTERVAL, 3);
    char *block = NULL;
    for (size_t bytes = 16 * KIB; bytes < 8 * MIB; bytes += 16 * KIB) {
        block = block == NULL ? ps_heap_alloc(bytes) : ps_block_resize(block, bytes);
        REQUIRE(block != NULL);
        block[bytes - 1] = 1;
    }
    /* Certainly sampled: once, with its last length. */
    CHECK_EQ(live_count() / PS_DRAW_WEIGHT_ONE, 1);
    CHECK_EQ(sums_of(0).live_bytes, ps_block_usable(block));
    ps_heap_free(block);
    CHECK_EQ(live_count(), 0);
}

static void *free_all(void *blocks) {
    for (void **block = blocks; *block != NULL; block++) {
        ps_heap_free(*block);
    }
    return NULL;
}

FRESH_TEST(any_thread_frees_a_sampled_block) {
    start(1, 1);
    void *blocks[100] = {NULL};
    for (size_t i = 0; i < 99; i++) {
        blocks[i] = ps_heap_alloc(16 + i * 700);
    }
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_all, blocks) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(live_count(), 0);
    CHECK_EQ(engine_census().run_live_count, 0);
}

#define THREADS 4

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed;
    void *slots[64] = {NULL};
    for (int i = 0; i < 20000; i++) {
        size_t slot = engine_random(&random) % 64;
        ps_heap_free(slots[slot]);
        site = slot % SITES;
        slots[slot] = ps_heap_alloc(engine_random_size(&random));
    }
    for (size_t i = 0; i < 64; i++) {
        ps_heap_free(slots[i]);
    }
    return NULL;
}

FRESH_TEST(threads_leave_no_live_sample_behind) {
    start(4 * KIB, 1);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(live_count(), 0);
}

/* ---- the table is bounded ---- */

FRESH_TEST(stacks_that_do_not_fit_are_counted_together) {
    engine_config.profile_max_bytes = 64 * KIB;
    start(1, 1);
    for (uintptr_t i = 1; i <= 5000; i++) {
        site = i;
        ps_heap_free(ps_heap_alloc(4096));
    }
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    CHECK_EQ(counts.sample_count, 5000);
    CHECK_CMP(counts.lost_stack_count, >, 1000);
    CHECK_EQ(counts.lost_block_count, 0);
    const struct ps_profile_stack *stack = NULL;
    struct ps_profile_sums sums = {0};
    size_t stacks = 0;
    for (const struct ps_profile_stack *next; (next = ps_profile_next(stack)) != NULL; stacks++) {
        stack = next;
    }
    ps_profile_read_sums(stack, &sums);
    CHECK_EQ(stack->count, 0);
    CHECK_EQ(sums.made_weight / PS_DRAW_WEIGHT_ONE, counts.lost_stack_count);
    CHECK_EQ(stacks - 1 + counts.lost_stack_count, 5000);
}

FRESH_TEST(blocks_that_do_not_fit_are_counted_as_freed) {
    engine_config.profile_max_bytes = 64 * KIB;
    start(1, 1);
    enum { BLOCKS = 3000 };
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(1000);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], (int)i, 1000);
    }
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    CHECK_EQ(counts.sample_count, BLOCKS);
    CHECK_CMP(counts.lost_block_count, >, 100);
    CHECK_EQ(live_count() / PS_DRAW_WEIGHT_ONE, BLOCKS - counts.lost_block_count);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_EQ((unsigned char)blocks[i][999], i & 0xff);
        ps_heap_free(blocks[i]);
    }
    CHECK_EQ(live_count(), 0);
}

/* ---- forks ---- */

FRESH_TEST(a_child_goes_on_sampling) {
    start(INTERVAL, 1);
    void *inherited = ps_heap_alloc(6 * MIB); /* certainly sampled */
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        ps_heap_free(inherited);
        bool is_empty = live_count() == 0;
        live_randomly(20000, 1);
        struct ps_profile_counts counts;
        ps_profile_count(&counts);
        _exit(is_empty && counts.sample_count > 100 ? 0 : 1);
    }
    close(child.stderr_fd);
    int status = 0;
    waitpid(child.pid, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(live_count() / PS_DRAW_WEIGHT_ONE, 1);
}

UNIT_MAIN
