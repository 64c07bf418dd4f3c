/* SPDX-License-Identifier: MIT */
/*
 * Huge pages as a source where the system has set some aside (vm.nr_hugepages); skipped elsewhere.
 */
#include <poolshim/pool.h>
#include <poolshim/source.h>

#include "pools/engine/os/os.h"
#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <errno.h>

TEST(a_pool_in_huge_pages) {
    struct ps_source_huge huge;
    if (!ps_source_huge_init(&huge, 0, PS_HUGE_ONLY)) {
        CHECK_EQ(errno, ENOSYS);
        UNIT_SKIP("the system has no huge pages to set aside");
    }
    size_t bytes = huge.page_bytes;
    unsigned char *chunk = huge.source.alloc(&huge.source, bytes, 16);
    if (chunk == NULL) {
        CHECK_EQ(errno, ENOMEM);
        UNIT_SKIP("no huge page is set aside (vm.nr_hugepages)");
    }
    memset(chunk, 0x5a, bytes);
    huge.source.free(&huge.source, chunk, bytes);
    CHECK(!ps_os_is_mapped(chunk));
    NEEDS_CHUNKS();
    struct ps_pool_options options = {
        .chunks = {.source = &huge.source, .first_bytes = bytes, .max_bytes = bytes},
    };
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 64, 64, &options));
    for (size_t i = 0; i < bytes / 128; i++) {
        void *object = ps_pool_alloc(&pool);
        REQUIRE(object != NULL);
        memset(object, 0x5a, 64);
    }
    struct ps_source_huge_stats stats;
    ps_source_huge_stats(&huge, &stats);
    CHECK_EQ(stats.huge_count, 2); /* the chunk above and the pool's */
    ps_pool_destroy(&pool);
}

UNIT_MAIN
