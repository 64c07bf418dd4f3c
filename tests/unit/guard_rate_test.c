// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * How often allocations are sampled: one in N on average, whatever the program does, though the
 * fast path counts bytes. Each pattern is long enough for 300 samples or more, so that a rate that
 * is off by a factor of two cannot pass for chance; each size for 3000, and 10 %.
 */
#include "pools/engine/harden/guard.h"
#include "tests/unit/engine.h"

#include <pthread.h>

#define SAMPLES 300

static bool is_guarded(const void *block) {
    return ps_page_map_slot(block)->run.kind == PS_RUN_GUARD;
}

/* Takes blocks of a size of the caller's choice and counts the guarded ones among them. */
static uint64_t taken;
static uint64_t guarded;

static void *count(void *block) {
    REQUIRE(block != NULL);
    taken++;
    guarded += is_guarded(block);
    return block;
}

static void *take(size_t bytes) { return count(ps_heap_alloc(bytes)); }

static void start(uint32_t period) {
    engine_config.guard_sample = period;
    engine_config.guard_slots = PS_GUARD_SLOTS_LIMIT;
    taken = 0;
    guarded = 0;
}

/* Between half and twice the configured rate; the figures are printed for the documentation. */
static void check_rate(const char *pattern, uint32_t period) {
    double apart = guarded != 0 ? (double)taken / (double)guarded : 0;
    printf("%-28s N=%-6u one in %.1f (%llu of %llu)\n", pattern, period, apart,
           (unsigned long long)guarded, (unsigned long long)taken);
    CHECK_CMP(guarded * period * 2, >=, taken);
    CHECK_CMP(guarded * period, <=, taken * 2);
}

static void run_pairs(uint32_t period, size_t least, size_t most) {
    start(period);
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * period; i++) {
        size_t bytes = least + unit_random() % (most - least + 1);
        ps_heap_free(take(bytes));
    }
}

static void run_nested_pairs(uint32_t period, size_t depth) {
    void *blocks[64];
    start(period);
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * period / depth; i++) {
        for (size_t j = 0; j < depth; j++) {
            blocks[j] = take(32 + 16 * (j % 4));
        }
        for (size_t j = depth; j-- > 0;) {
            ps_heap_free(blocks[j]);
        }
    }
}

struct node {
    struct node *next;
};

/* Builds lists and frees each in order, from either end. */
static void run_lists(uint32_t period, size_t nodes) {
    start(period);
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * period / nodes + 1; i++) {
        struct node *list = NULL;
        for (size_t j = 0; j < nodes; j++) {
            struct node *node = take(24);
            node->next = list;
            list = node;
        }
        while (list != NULL) {
            struct node *next = list->next;
            ps_heap_free(list);
            list = next;
        }
    }
}

static void run_replace(uint32_t period, size_t live, size_t most) {
    start(period);
    void **blocks = calloc(live, sizeof *blocks);
    REQUIRE(blocks != NULL);
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * period + live; i++) {
        size_t which = unit_random() % live;
        ps_heap_free(blocks[which]);
        blocks[which] = take(1 + unit_random() % most);
    }
    free(blocks);
}

#define RATE_TEST(name, period, ...)                                                               \
    FRESH_TEST(name) {                                                                             \
        __VA_ARGS__;                                                                               \
        check_rate(#name, period);                                                                 \
    }

RATE_TEST(pairs_of_one_size, 1000, run_pairs(1000, 64, 64))
RATE_TEST(pairs_of_all_small_sizes, 1000, run_pairs(1000, 1, 1024))
RATE_TEST(pairs_of_the_largest_sizes, 1000, run_pairs(1000, 8192, 16384))
RATE_TEST(nested_pairs, 1000, run_nested_pairs(1000, 40))
RATE_TEST(short_lists, 1000, run_lists(1000, 50))
RATE_TEST(long_lists, 1000, run_lists(1000, 100000))
RATE_TEST(random_replacement, 1000, run_replace(1000, 10000, 512))
RATE_TEST(random_replacement_of_few, 1000, run_replace(1000, 50, 4096))
RATE_TEST(pairs_often, 100, run_pairs(100, 1, 512))
RATE_TEST(lists_often, 100, run_lists(100, 3000))
RATE_TEST(replacement_often, 100, run_replace(100, 3000, 512))
RATE_TEST(pairs_counted_by_themselves, 10, run_pairs(10, 1, 16384))
RATE_TEST(replacement_counted_by_itself, 10, run_replace(10, 1000, 16384))

/* One in `apart` within 10 %, which is more than five times the standard deviation. */
static void check_closely(double apart) {
    double found = (double)taken / (double)guarded;
    printf("one in %.1f, expected %.1f (%llu samples)\n", found, apart,
           (unsigned long long)guarded);
    CHECK(found > apart * 0.9 && found < apart * 1.1);
}

static void check_size(uint32_t period, size_t bytes, double apart) {
    start(period);
    for (uint64_t i = 0; i < (uint64_t)(3000 * apart); i++) {
        ps_heap_free(take(bytes));
    }
    check_closely(apart);
}

FRESH_TEST(blocks_of_any_size_are_sampled_alike) {
    static const size_t sizes[] = {8, 9, 24, 100, 1000, 1025, 4000, 8192, 9000, 16384};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_size(100, sizes[i], 100);
    }
}

FRESH_TEST(the_smallest_blocks_are_sampled_less) {
    check_size(100, 4, 200);
    check_size(100, 1, 800);
}

FRESH_TEST(blocks_of_any_size_are_sampled_alike_where_each_is_counted) {
    static const size_t sizes[] = {0, 1, 4, 100, 2000, 9000, 16384};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_size(PS_GUARD_EXACT, sizes[i], PS_GUARD_EXACT);
    }
}

FRESH_TEST(aligned_and_zeroed_blocks_are_sampled_alike) {
    start(100);
    for (int i = 0; i < 300000; i++) {
        ps_heap_free(count(ps_block_alloc_aligned(50, 64)));
    }
    check_closely(100);
    start(100);
    for (int i = 0; i < 300000; i++) {
        ps_heap_free(count(ps_block_zalloc(1 + unit_random() % 16384)));
    }
    check_closely(100);
}

#define FIRST_BLOCKS 30

static void *take_the_first(void *unused) {
    (void)unused;
    for (int i = 0; i < FIRST_BLOCKS; i++) {
        ps_heap_free(take(40));
    }
    return NULL;
}

static void check_threads(void) {
    for (int i = 0; i < 10000; i++) { /* one at a time */
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, take_the_first, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    check_closely(100);
}

FRESH_TEST(the_first_blocks_of_a_thread_are_sampled_alike) {
    start(100);
    check_threads();
}

FRESH_TEST(every_allocation_is_guarded_while_there_are_slots) {
    start(1);
    for (size_t i = 0; i < 10000; i++) {
        void *block = take(unit_random() % 16384);
        CHECK(is_guarded(block));
        if (i % 3 != 0) {
            ps_heap_free(block);
        }
    }
}

FRESH_TEST(nothing_is_guarded_unless_asked_for) {
    start(0);
    for (size_t i = 0; i < 100000; i++) {
        ps_heap_free(take(unit_random() % 4096));
    }
    CHECK_EQ(guarded, 0);
}

UNIT_MAIN
