// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The system takes nothing back and moves nothing, for good: memory is not lost, and a program that
 * continues to allocate and free does not use up its addresses either.
 */
#include "tests/unit/engine.h"

#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_cache.h"

#define ROUNDS 300

static void use_and_free(size_t bytes, uint64_t seed) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(bytes), bytes, seed);
    CHECK(live.address != NULL);
    live_end(&live);
}

FRESH_TEST(mappings_that_the_system_keeps_serve_the_next_ones) {
    engine_config.cache_max_bytes = 0;
    use_and_free(5 * MIB, 1);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    use_and_free(9 * MIB, 1);
    /* Where the system puts a mapping decides whether the page map needs another leaf for it. */
    uint64_t mapped_bytes = fake_os_mapped_bytes() - ps_metadata_x_bytes;
    WHEN("mappings come and go while none is unmapped");
    for (size_t round = 0; round < ROUNDS; round++) {
        use_and_free(5 * MIB + round % 4 * MIB, round);
    }
    THEN("mappings that the system refused to unmap are used again");
    CHECK_EQ(fake_os_mapped_bytes() - ps_metadata_x_bytes, mapped_bytes);
    CHECK_EQ(engine_census().map_live_count, 0);
    check_live_blocks(0);
    WHEN("the system unmaps again");
    fake_os_refuse(0);
    use_and_free(20 * MIB, 1); /* longer than those: a mapping */
    uint64_t reserves = fake_os_calls(FAKE_OS_RESERVE);
    use_and_free(5 * MIB, 1);
    THEN("all is as before: a mapping that is unmapped at once");
    CHECK_EQ(fake_os_calls(FAKE_OS_RESERVE), reserves + 1);
    CHECK_EQ(fake_os_mapped_bytes() - ps_metadata_x_bytes, mapped_bytes);
    check_live_blocks(0);
}

FRESH_TEST(a_mapping_longer_than_any_run_is_kept_in_pieces) {
    engine_config.cache_max_bytes = 0;
    size_t bytes = (PS_RUN_GRANULES_LIMIT * 2 + 3) << PS_GRANULE_SHIFT;
    unsigned char *block = ps_heap_alloc(bytes);
    if (block == NULL) {
        UNIT_SKIP("4 GiB of addresses are not to be had");
    }
    block[0] = 1;
    block[bytes - 1] = 1;
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE) | FAKE_OS_BIT(FAKE_OS_PURGE));
    ps_heap_free(block);
    CHECK_EQ(engine_census().cache_dirty_bytes, bytes);
    fake_os_refuse(0);
    CHECK(ps_maintenance_trim(0));
    CHECK_CMP(fake_os_purged_bytes(), >=, bytes);
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
}

/* A mapping that must move to grow, since its own addresses cannot be extended. */
static void grow_and_free(uint64_t seed) {
    struct live_block live;
    live_start(&live, ps_heap_alloc(300 * KIB), 300 * KIB, seed);
    CHECK(live_resize(&live, 700 * KIB, seed + 1));
    live_end(&live);
}

FRESH_TEST(moves_that_are_refused_are_tried_ever_less_often) {
    engine_config.mmap_min_bytes = 256 * KIB; /* short ones, that are soon copied */
    engine_config.cache_max_bytes = 0;
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE) | FAKE_OS_BIT(FAKE_OS_MOVE));
    for (size_t round = 0; round < ROUNDS; round++) {
        grow_and_free(round); /* by a copy */
    }
    uint64_t moves = fake_os_calls(FAKE_OS_MOVE);
    CHECK_CMP(moves, >=, 5);
    CHECK_CMP(moves, <=, 12); /* each may cost the addresses of a target */
    WHEN("one succeeds");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESIZE));
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        grow_and_free(round);
    }
    uint64_t after = fake_os_calls(FAKE_OS_MOVE);
    for (size_t round = 0; round < 20; round++) {
        grow_and_free(round);
    }
    THEN("all that follow are tried");
    CHECK_EQ(fake_os_calls(FAKE_OS_MOVE), after + 20);
    check_live_blocks(0);
}

static size_t arena_count(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.arena_count;
}

FRESH_TEST(one_refused_arena_does_not_make_all_later_ones_small) {
    static void *blocks[1000];
    ps_heap_free(ps_heap_alloc(1));
    WHEN("reservations are refused for a while in the growth to 2 GB");
    fake_os_limit_reserve(5 * MIB);
    for (size_t i = 0; i < 1000; i++) {
        if (i == 4) {
            fake_os_limit_reserve(SIZE_MAX);
        }
        blocks[i] = ps_heap_alloc(2 * MIB);
        CHECK(blocks[i] != NULL);
        if (i == 100) { /* and not to the largest size at once: addresses may still be few */
            CHECK_CMP(engine_census().arena_bytes, <, 400 * MIB);
        }
    }
    THEN("arenas have grown again: there is room for so many of them only");
    CHECK_CMP(arena_count(), <, 40);
    for (size_t i = 0; i < 1000; i++) {
        ps_heap_free(blocks[i]);
    }
    check_live_blocks(0);
}

UNIT_MAIN
