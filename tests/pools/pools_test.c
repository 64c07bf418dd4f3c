/* SPDX-License-Identifier: MIT */
/*
 * Pools for any size (poolshim/pools.h): classes, blocks with chunks of their own, random calls
 * compared with a model.
 */
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"

#include <errno.h>
#include <poolshim/pools.h>

static struct ps_pools pools;

static struct ps_pools_stats stats_now(void) {
    struct ps_pools_stats stats;
    ps_pools_stats(&pools, &stats);
    return stats;
}

TEST(a_class_fits_its_sizes_within_a_fourth) {
    ps_pools_init(&pools, NULL);
    CHECK_EQ(ps_pools_class(0), 0);
    CHECK_EQ(ps_pools_class(PS_POOLS_SIZE_MAX), PS_POOLS_CLASSES - 1);
    for (size_t bytes = 1; bytes <= PS_POOLS_SIZE_MAX; bytes++) {
        size_t class_index = ps_pools_class(bytes);
        REQUIRE(class_index < PS_POOLS_CLASSES);
        size_t stride = pools.classes[class_index].stride;
        CHECK_CMP(stride, >=, bytes);
        CHECK_CMP(stride, <=, bytes < 128 ? bytes + 15 : bytes + bytes / 4);
        CHECK(class_index == 0 || pools.classes[class_index - 1].stride < bytes);
    }
    ps_pools_destroy(&pools);
}

TEST(large_blocks_are_aligned_and_owned) {
    ps_pools_init(&pools, NULL);
    for (size_t align = 1; align <= PS_POOL_ALIGN_MAX; align *= 2) {
        char *block = ps_pools_alloc_large(&pools, 10000, align);
        REQUIRE(block != NULL);
        CHECK_EQ((uintptr_t)block % align, 0);
        memset(block, 1, 10000);
        CHECK(ps_pools_owns(&pools, block + 9999));
        CHECK(!ps_pools_owns(&pools, block + 10000));
        if (align % 3 == 1) {
            ps_pools_free_large(&pools, block);
        }
    }
    errno = 0;
    CHECK(ps_pools_alloc_large(&pools, 10, 3) == NULL);
    CHECK_EQ(errno, EINVAL);
    errno = 0;
    CHECK(ps_pools_alloc(&pools, SIZE_MAX) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(ps_pools_alloc_large(&pools, SIZE_MAX - 64, 64) == NULL);
    CHECK(ps_pools_alloc(&pools, SIZE_MAX / 2) == NULL);
    ps_pools_free(&pools, NULL, 5);
    ps_pools_free(&pools, NULL, 50000);
    ps_pools_destroy(&pools);
    CHECK_EQ(stats_now().total_bytes, 0);
}

#define LIVE_MAX 2000

struct block {
    unsigned char *memory;
    size_t bytes;
    unsigned char fill;
};

static struct block live[LIVE_MAX];

static void free_block(size_t index, size_t *live_count) {
    struct block block = live[index];
    for (size_t byte = 0; byte < block.bytes; byte++) {
        REQUIRE(block.memory[byte] == block.fill);
    }
    ps_pools_free(&pools, block.memory, block.bytes);
    live[index] = live[--*live_count];
}

TEST(blocks_of_random_sizes_keep_their_contents) {
    NEEDS_CHUNKS();
    struct ps_source_account account;
    ps_source_account_init(&account, NULL, 0);
    struct ps_chunk_options options = {.source = &account.source, .name = "mixed"};
    ps_pools_init(&pools, &options);
    size_t live_count = 0;
    for (size_t step = 0; step < 40000; step++) {
        if (unit_random() % 2 == 0 && live_count < LIVE_MAX) {
            size_t bytes = unit_random() % ((size_t)1 << (unit_random() % 15));
            unsigned char *memory = ps_pools_alloc(&pools, bytes);
            REQUIRE(memory != NULL);
            CHECK_EQ((uintptr_t)memory % 16, 0);
            CHECK(ps_pools_owns(&pools, memory) || bytes == 0);
            live[live_count] = (struct block){memory, bytes, (unsigned char)step};
            memset(memory, (int)step, bytes);
            live_count++;
        } else if (live_count > 0) {
            free_block(unit_random() % live_count, &live_count);
        }
        if (step % 8192 == 0) {
            ps_pools_trim_to(&pools, 0);
            CHECK_EQ(stats_now().used_count, live_count);
        }
    }
    CHECK_STR_EQ(stats_now().name, "mixed");
    CHECK_EQ(ps_source_account_used(&account), stats_now().total_bytes);
    while (live_count > 0) {
        free_block(0, &live_count);
    }
    ps_pools_trim_to(&pools, 0);
    CHECK_EQ(ps_source_account_used(&account), 0);
    CHECK(ps_pools_alloc(&pools, 100) != NULL);
    CHECK(ps_pools_alloc(&pools, 10000) != NULL);
    ps_pools_reset(&pools);
    CHECK_EQ(stats_now().used_count, 0);
    ps_pools_destroy(&pools);
    CHECK_EQ(ps_source_account_used(&account), 0);
}

UNIT_MAIN
