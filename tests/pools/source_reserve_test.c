/* SPDX-License-Identifier: MIT */
/*
 * The reserved range as a source: chunks side by side, what returns, bounds, refusals of the
 * system, and pools on top of it.
 */
#include <poolshim/pool.h>
#include <poolshim/region.h>

#include "pools/engine/os/os.h"
#include "tests/pools/modes.h"
#include "tests/pools/source_chunks.h"
#include "tests/unit/fresh.h"

#include <sys/resource.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

TEST(chunks_lie_side_by_side_up_to_the_bound) {
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, 10 * MIB + 1));
    CHECK_EQ(range.reserved_bytes % ps_os_page_bytes(), 0);
    char *base = range.base;
    size_t bound = range.reserved_bytes;
    size_t bytes = 4096;
    size_t total = 0;
    while (bytes <= bound - total) {
        char *chunk = take(&range.source, bytes, 16);
        REQUIRE(chunk != NULL);
        CHECK_PTR_EQ(chunk, base + total);
        total += bytes;
        CHECK_EQ(range.used_bytes, total);
        CHECK_CMP(range.committed_bytes, >=, total);
        CHECK_CMP(range.committed_bytes, <=, bound);
        bytes += 4096;
    }
    CHECK(ps_source_reserve_owns(&range, base) && ps_source_reserve_owns(&range, base + total - 1));
    CHECK(!ps_source_reserve_owns(&range, base + total));
    CHECK(!ps_source_reserve_owns(&range, base - 1));
    errno = 0;
    CHECK(take(&range.source, bytes, 16) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(take(&range.source, bound - total, 1) != NULL); /* to the last byte */
    CHECK(take(&range.source, 1, 1) == NULL);
    ps_source_reserve_destroy(&range);
    CHECK(!ps_os_is_mapped(base));
    ps_source_reserve_destroy(&range); /* again: nothing */
}

TEST(chunks_are_aligned) {
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, 10 * MIB));
    for (size_t align = 1; align <= 64 * KIB; align *= 2) {
        char *chunk = take(&range.source, 100, align);
        REQUIRE(chunk != NULL);
        CHECK_EQ((uintptr_t)chunk & (align - 1), 0);
    }
    ps_source_reserve_destroy(&range);
}

TEST(the_newest_chunk_returns_and_then_the_one_before_it) {
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, MIB));
    char *a = take(&range.source, 8 * KIB, 16);
    char *b = take(&range.source, 8 * KIB, 16);
    char *c = take(&range.source, 8 * KIB, 16);
    give(&range.source, c, 8 * KIB);
    give(&range.source, b, 8 * KIB);
    CHECK_EQ(range.used_bytes, 8 * KIB);
    CHECK_PTR_EQ(take(&range.source, 4 * KIB, 16), b);
    CHECK_EQ(a[0], FILLED);
    ps_source_reserve_destroy(&range);
}

TEST(all_addresses_return_with_the_last_chunk) {
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, MIB));
    char *a = take(&range.source, 64 * KIB, 16);
    char *b = take(&range.source, 64 * KIB, 16);
    give(&range.source, a, 64 * KIB);
    CHECK_EQ(range.used_bytes, 128 * KIB);
    if (ps_os_page_bytes() == 4096) {
        CHECK_EQ(a[0], 0); /* its memory went at once */
    }
    CHECK_EQ(b[0], FILLED);
    give(&range.source, b, 64 * KIB);
    CHECK_EQ(range.used_bytes, 0);
    CHECK_PTR_EQ(take(&range.source, MIB, 16), a);
    ps_source_reserve_destroy(&range);
}

TEST(memory_comes_with_use_and_goes_with_the_chunk) {
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, (size_t)1 << 33)); /* addresses, no memory */
    CHECK_EQ(range.committed_bytes, 0);
    char *chunk = take(&range.source, 8 * MIB, 16);
    REQUIRE(chunk != NULL);
    CHECK_CMP(ps_os_resident(range.base, 16 * MIB), >=, 8 * MIB);
    give(&range.source, chunk, 8 * MIB);
    CHECK_EQ(ps_os_resident(range.base, 16 * MIB), 0);
    ps_source_reserve_destroy(&range);
}

TEST(bad_bounds_are_refused) {
    struct ps_source_reserve range;
    CHECK(!ps_source_reserve_init(&range, 0) && errno == EINVAL);
    CHECK(!ps_source_reserve_init(&range, SIZE_MAX) && errno == EINVAL);
    CHECK(!ps_source_reserve_init(&range, (size_t)PTRDIFF_MAX) && errno == ENOMEM);
    errno = 0;
    CHECK(range.source.alloc(&range.source, 1, 1) == NULL && errno == ENOMEM);
    ps_source_reserve_destroy(&range);
}

static size_t oom_bytes;

static int note_oom(void *context, size_t bytes) {
    (void)context;
    oom_bytes = bytes;
    return 0;
}

FRESH_TEST(what_the_system_refuses_to_commit_is_memory_that_is_out) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* whose own data are beyond the limit */
#endif
    NEEDS_CHUNKS();
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, 256 * MIB));
    struct ps_region_options options = {
        .chunks = {.source = &range.source, .oom = note_oom},
    };
    struct ps_region *region = ps_region_create(&options);
    REQUIRE(region != NULL);
    /* Private writable memory counts as data, addresses without access do not. */
    struct rlimit limit = {.rlim_cur = 16 * MIB, .rlim_max = RLIM_INFINITY};
    REQUIRE(setrlimit(RLIMIT_DATA, &limit) == 0);
    size_t count = 0;
    while (ps_region_alloc(region, 100 * KIB) != NULL && count < 1000) {
        count++;
    }
    CHECK_CMP(count, >, 20);
    CHECK_CMP(count, <, 170);
    CHECK_EQ(errno, ENOMEM);
    CHECK_CMP(oom_bytes, >=, 100 * KIB);
    limit.rlim_cur = RLIM_INFINITY;
    REQUIRE(setrlimit(RLIMIT_DATA, &limit) == 0);
    CHECK(ps_region_alloc(region, 100 * KIB) != NULL);
    ps_region_destroy(region);
    CHECK_EQ(range.used_bytes, 0);
    CHECK_EQ(range.chunk_count, 0);
    ps_source_reserve_destroy(&range);
}

TEST(objects_of_a_pool_have_32_bit_offsets) {
    NEEDS_CHUNKS();
    struct ps_source_reserve range;
    REQUIRE(ps_source_reserve_init(&range, (size_t)1 << 32));
    struct ps_pool_options options = {.chunks = {.source = &range.source}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, sizeof(uint64_t), 0, &options));
    uint32_t offsets[5000];
    for (size_t i = 0; i < 5000; i++) {
        uint64_t *object = ps_pool_alloc(&pool);
        REQUIRE(object != NULL && ps_source_reserve_owns(&range, object));
        offsets[i] = (uint32_t)((char *)object - range.base);
        *object = i;
    }
    for (size_t i = 0; i < 5000; i++) {
        uint64_t value;
        memcpy(&value, range.base + offsets[i], sizeof value);
        CHECK_EQ(value, i);
    }
    CHECK_CMP(range.used_bytes, <, 128 * KIB); /* no gap of note between the chunks */
    ps_pool_destroy(&pool);
    CHECK_EQ(range.used_bytes, 0);
    ps_source_reserve_destroy(&range);
}

UNIT_MAIN
