// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Sampled blocks of partitions: they remain in their partition, count in it, and leave the profile
 * with it.
 */
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/profile/profile.h"
#include "tests/unit/engine.h"

static void begin_profile(size_t interval_bytes) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = interval_bytes;
    engine_config.profile_seed = 3;
}

FRESH_TEST(samples_of_a_partition_end_with_it) {
    begin_profile(200);
    struct ps_partition *part = ps_partition_create("part", 0);
    REQUIRE(part != NULL);
    struct ps_profile_counts counts;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 1; i <= 2000; i++) {
            unsigned char *block = ps_partition_alloc(part, i, 1, true);
            CHECK(block != NULL && engine_is_zero(block, i));
            CHECK(ps_partition_of(block) == part);
            CHECK_CMP(ps_block_usable(block), <=, ps_block_length(i, 1));
        }
        ps_profile_count(&counts);
        CHECK(counts.live_bytes > 2 * MIB * 9 / 10 && counts.live_bytes < 2 * MIB * 13 / 10);
        CHECK(round == 2 ? ps_partition_destroy(part) : ps_partition_reset(part));
        ps_profile_count(&counts);
        CHECK_EQ(counts.live_bytes, 0);
    }
}

FRESH_TEST(resized_samples_of_a_partition_stay_in_it) {
    begin_profile(100);
    struct ps_partition *part = ps_partition_create("part", 0);
    REQUIRE(part != NULL);
    for (size_t i = 1; i <= 1000; i++) {
        char *block = ps_partition_alloc(part, i, 1, false);
        memset(block, 7, i);
        for (size_t bytes = i; bytes < 200 * KIB; bytes = bytes * 3 + 1) {
            block = ps_block_resize(block, bytes);
            CHECK(block != NULL && ps_partition_of(block) == part && block[i - 1] == 7);
        }
        block = ps_block_resize(block, i);
        CHECK(ps_partition_of(block) == part && block[i - 1] == 7);
        ps_heap_free(block);
    }
    struct ps_partition_use use;
    ps_partition_read(part, &use);
    CHECK_EQ(use.live_count + use.live_bytes + use.large_bytes + use.large_count, 0);
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    CHECK_EQ(counts.live_bytes, 0);
}

UNIT_MAIN
