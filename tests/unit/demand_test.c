// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Sampling for readers, other processes that change a number while they want samples: it begins and
 * ends with them, at the interval that they ask for, and the figures of the table are unbiased. The
 * request is written here as such a process writes it.
 */
#include "pools/engine/heap/draw.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "tests/unit/sampled.h"

#define INTERVAL ((size_t)64 * KIB)

static void ask(size_t interval_bytes) {
    /* relaxed, both: by a system call in truth. */
    ps_store_relaxed(&ps_demand_x_request.x_interval_bytes, (uint64_t)interval_bytes);
    (void)ps_add_relaxed(&ps_demand_x_request.x_beat, 1u);
}

static double made_bytes(void) {
    double bytes = 0;
    for (const struct ps_profile_stack *stack = ps_profile_next(NULL); stack != NULL;
         stack = ps_profile_next(stack)) {
        struct ps_profile_sums sums;
        ps_profile_read_sums(stack, &sums);
        bytes += (double)sums.made_bytes;
    }
    return bytes;
}

static uint64_t samples(void) {
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    return counts.sample_count;
}

/* The sampled bytes of some work agree with the allocated ones. */
static void check_work(size_t rounds, size_t interval_bytes) {
    double before = made_bytes();
    double bytes = work(rounds);
    double deviation = sqrt(bytes * (double)ps_max(interval_bytes, 700 * KIB));
    CHECK_CMP(fabs(made_bytes() - before - bytes), <=, SIGMAS * deviation);
}

FRESH_TEST(a_reader_gets_samples_until_it_stops_asking) {
    start_sampled(INTERVAL);
    work(100);
    CHECK_EQ(ps_demand_now(), 0);
    ask(0);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_READER);
    for (size_t i = 0; i < 10; i++) {
        fake_os_advance_ms(PS_DEMAND_BEAT_MS - 1000);
        work(20);
        CHECK_EQ(ps_demand_now(), PS_DEMAND_READER);
        ask(0);
        work(20);
    }
    check_work(400, INTERVAL);
    fake_os_advance_ms(PS_DEMAND_BEAT_MS + 10);
    work(20);
    CHECK_EQ(ps_demand_now(), 0);
    uint64_t count = samples();
    work(100);
    CHECK_EQ(samples(), count);
    ask(0);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_READER);
    check_live_blocks(0);
}

FRESH_TEST(the_interval_of_the_configuration_changes) {
    engine_config.profile = true;
    start_sampled(INTERVAL);
    check_work(200, INTERVAL);
    uint64_t count = samples();
    CHECK(ps_demand_set_interval(INTERVAL / 16));
    work(20); /* each thread notices it */
    double before = made_bytes();
    double bytes = work(200);
    CHECK_CMP(fabs(made_bytes() - before - bytes), <=, SIGMAS * sqrt(bytes * 700 * KIB));
    CHECK_CMP(samples() - count, >, 4 * count);
}

FRESH_TEST(a_loop_over_one_block_of_any_size_notices) {
    static const size_t sizes[] = {16, 3000, 20 * KIB, 100 * KIB, 700 * KIB, 40 * MIB};
    start_sampled(INTERVAL);
    for (size_t i = 0; i < 6; i++) {
        fake_os_advance_ms(PS_DEMAND_BEAT_MS + 10);
        work(20);
        CHECK_EQ(ps_demand_now(), 0);
        ask(4 * KIB);
        for (size_t j = 0; j < 5000; j++) {
            ps_heap_free(ps_heap_alloc(sizes[i]));
        }
        CHECK_EQ(ps_demand_now(), PS_DEMAND_READER);
    }
}

FRESH_TEST(the_interval_is_that_of_the_request) {
    start_sampled(INTERVAL);
    static const size_t intervals[] = {4 * KIB, 512 * KIB, 16 * KIB, 0};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < 4; i++) {
        size_t interval_bytes = intervals[i] != 0 ? intervals[i] : INTERVAL;
        ask(intervals[i]);
        work(20);
        CHECK_EQ(ps_demand_x_interval_bytes, interval_bytes);
        uint64_t before = samples();
        check_work(400, interval_bytes);
        least = ps_min(least, samples() - before);
        if (i == 0) {
            CHECK_CMP(samples() - before, >, 4000);
        }
    }
    CHECK_CMP(least, <, 1500);
    CHECK_CMP(least, >, 100);
}

FRESH_TEST(an_interval_of_any_value_is_harmless) {
    static const uint64_t values[] = {1, 2, UINT64_MAX, (uint64_t)1 << 63, 12345};
    start_sampled(INTERVAL);
    for (size_t i = 0; i < 5; i++) {
        ask((size_t)values[i]);
        work(20);
        CHECK_CMP(ps_demand_x_interval_bytes, <=, PS_DEMAND_INTERVAL_MOST);
    }
    check_live_blocks(0);
}

FRESH_TEST(a_file_keeps_its_interval) {
    engine_config.profile = true;
    start_sampled(INTERVAL);
    ask(4 * KIB);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE | PS_DEMAND_READER);
    CHECK_EQ(ps_demand_x_interval_bytes, INTERVAL);
    fake_os_advance_ms(PS_DEMAND_BEAT_MS + 10);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE);
}

FRESH_TEST(live_samples_have_numbers_in_order) {
    start_sampled(INTERVAL);
    ask(1);
    work(10);
    uint64_t before = samples();
    void *first = ps_heap_alloc(100);
    void *second = ps_heap_alloc(100);
    CHECK_EQ(samples(), before + 2);
    struct ps_sample *sample = ps_table_take(first);
    REQUIRE(sample != NULL);
    CHECK_EQ(sample->number, (uint32_t)before + 1);
    CHECK_EQ(sample->weight, PS_DRAW_WEIGHT_ONE);
    CHECK(ps_table_memory.x_sequence % 2 == 0);
    uint64_t sequence = ps_table_memory.x_sequence;
    ps_table_put(sample, first);
    CHECK_EQ(ps_table_memory.x_sequence, sequence + 2);
    ps_heap_free(first);
    ps_heap_free(second);
}

FRESH_TEST(other_modes_ignore_readers) {
    engine_config.harden = 2;
    start_sampled(INTERVAL);
    ask(1);
    work(50);
    CHECK_EQ(ps_demand_now(), 0);
}

FRESH_TEST(readers_come_and_go_beside_threads) {
    start_sampled(INTERVAL);
    start_working();
    for (size_t i = 0; i < 60; i++) {
        if (i % 4 == 3) {
            fake_os_advance_ms(PS_DEMAND_BEAT_MS + 10);
        } else {
            ask((4 + i % 3 * 20) * KIB);
        }
        work(3);
    }
    end_working();
    CHECK_CMP(samples(), >, 0);
    check_live_blocks(0);
}

/* The reader does not know of the child, whose table remains valid and changes as a whole. */
FRESH_TEST(a_child_samples_no_longer_than_its_parents_reader) {
    start_sampled(INTERVAL);
    ask(0);
    work(20);
    pid_t child = fork();
    REQUIRE(child >= 0);
    work(20);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_READER);
    CHECK(ps_table_memory.x_sequence % 2 == 0);
    if (child == 0) {
        fake_os_advance_ms(PS_DEMAND_BEAT_MS + 10);
        work(20);
        CHECK_EQ(ps_demand_now(), 0);
    }
    unit_join_child(child);
}

UNIT_MAIN
