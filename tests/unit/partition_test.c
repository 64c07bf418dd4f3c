// marks: slow
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Partitions of the heap: no page of one serves another or the plain heap, also over time; blocks
 * of all sizes are freed and resized by the usual functions, in each mode, and counted.
 */
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"

#define PAGE_SHIFT 12
#define OWNERS_BITS 22 /* of the table of pages: more than a test touches */
#define PARTS 3        /* 0: the plain heap */
#define LIVE 3000

/* ---- whose page it was ---- */

static struct {
    uintptr_t page; /* 0: empty */
    int owner;
} owners[(size_t)1 << OWNERS_BITS];

/* Notes that a page is of a part, from now on for ever; false: it was another's. */
static bool note_page(uintptr_t page, int owner) {
    size_t mask = ((size_t)1 << OWNERS_BITS) - 1;
    size_t at = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;
    while (owners[at].page != 0 && owners[at].page != page) {
        at = (at + 1) & mask;
    }
    if (owners[at].page == 0) {
        owners[at].page = page;
        owners[at].owner = owner;
    }
    return owners[at].owner == owner;
}

static bool note_block(const void *block, size_t bytes, int owner) {
    bool is_own = true;
    uintptr_t last = ((uintptr_t)block + (bytes == 0 ? 0 : bytes - 1)) >> PAGE_SHIFT;
    for (uintptr_t page = (uintptr_t)block >> PAGE_SHIFT; page <= last; page++) {
        is_own = is_own && note_page(page, owner);
    }
    return is_own;
}

/* ---- random calls ---- */

static struct ps_partition *parts[PARTS];
static struct live_block live[LIVE];
static int part_of[LIVE];

static size_t random_size(uint64_t *state) {
    uint64_t kind = engine_random(state) % 100;
    size_t limit = kind < 60 ? 300 : kind < 85 ? 9 * KIB : kind < 98 ? 80 * KIB : 3 * MIB;
    return engine_random(state) % limit;
}

static void *make(int part, size_t bytes, size_t align, bool is_zeroed) {
    if (part != 0) {
        return ps_partition_alloc(parts[part], bytes, align, is_zeroed);
    }
    return is_zeroed ? ps_block_zalloc(bytes) : ps_block_alloc_aligned(bytes, align);
}

static void replace(size_t at, uint64_t *state) {
    int part = (int)(engine_random(state) % PARTS);
    size_t bytes = random_size(state);
    bool is_zeroed = engine_random(state) % 4 == 0;
    size_t align = (size_t)16 << (engine_random(state) % 16 == 0 ? engine_random(state) % 13 : 0);
    unsigned char *block = make(part, bytes, is_zeroed ? 1 : align, is_zeroed);
    REQUIRE(block != NULL);
    CHECK(is_zeroed || (uintptr_t)block % (bytes > 8 || align > 16 ? align : 8) == 0);
    CHECK(!is_zeroed || engine_is_zero(block, bytes));
    CHECK(note_block(block, bytes, part));
    CHECK_PTR_EQ(ps_partition_of(block), parts[part]);
    CHECK(ps_block_usable(block) >= bytes);
    live_start(&live[at], block, bytes, engine_random(state));
    part_of[at] = part;
}

static void resize(size_t at, uint64_t *state) {
    size_t bytes = random_size(state) + 1;
    CHECK(live_resize(&live[at], bytes, engine_random(state)));
    CHECK(note_block(live[at].address, bytes, part_of[at]));
    CHECK_PTR_EQ(ps_partition_of(live[at].address), parts[part_of[at]]);
}

static void churn(size_t calls, uint64_t seed) {
    uint64_t state = seed;
    for (size_t i = 0; i < calls; i++) {
        size_t at = engine_random(&state) % LIVE;
        if (live[at].address == NULL) {
            replace(at, &state);
        } else if (engine_random(&state) % 5 == 0) {
            resize(at, &state);
        } else {
            live_end(&live[at]);
        }
        if (i % 4096 == 0) {
            fake_os_advance_ms(60);
        }
    }
}

static void begin_parts(void) {
    for (int i = 1; i < PARTS; i++) {
        parts[i] = ps_partition_create("part", 0);
        REQUIRE(parts[i] != NULL);
    }
}

static struct ps_partition_use use_of(int part) {
    struct ps_partition_use use;
    ps_partition_read(parts[part], &use);
    return use;
}

FRESH_TEST(no_page_of_a_partition_serves_another_over_time) {
    begin_parts();
    churn(200000 / FRESH_SLOWNESS, 7);
    struct ps_census census = engine_census();
    check_census(&census);
    live_end_all(live, LIVE);
    ps_maintenance_trim(0);
    churn(60000 / FRESH_SLOWNESS, 11);
    live_end_all(live, LIVE);
    for (int i = 1; i < PARTS; i++) {
        struct ps_partition_use use = use_of(i);
        CHECK_EQ(use.live_bytes, 0);
        CHECK_EQ(use.live_count, 0);
        CHECK_EQ(use.large_bytes, 0);
        CHECK(use.peak_bytes > 0 && use.made_count > 1000);
        CHECK(ps_partition_destroy(parts[i]));
    }
    census = engine_census();
    check_census(&census);
    CHECK_EQ(census.map_live_count, 0);
}

/* ---- all modes, threads, forks ---- */

#define WORKERS 3
#define SHARED 2000

static void *x_shared[SHARED]; /* blocks that any thread may free */

/* Exchanges blocks of both partitions, and of the plain heap, with the other threads. */
static void *exchange_blocks(void *seed) {
    uint64_t state = *(uint64_t *)seed;
    for (size_t i = 0; i < 20000 / FRESH_SLOWNESS; i++) {
        size_t bytes = random_size(&state);
        int part = (int)(engine_random(&state) % PARTS);
        unsigned char *block = make(part, bytes, 16, engine_random(&state) % 8 == 0);
        REQUIRE(block != NULL);
        memset(block, 0x5a, bytes < 64 ? bytes : 64);
        CHECK_PTR_EQ(ps_partition_of(block), parts[part]);
        block =
            __atomic_exchange_n(&x_shared[engine_random(&state) % SHARED], block, __ATOMIC_ACQ_REL);
        if (block != NULL && engine_random(&state) % 8 == 0) {
            struct ps_partition *owner = ps_partition_of(block);
            block = ps_block_resize(block, random_size(&state) + 1);
            CHECK_PTR_EQ(ps_partition_of(block), owner);
        }
        if (block != NULL) {
            ps_heap_free(block);
        }
        if (i % 512 == 0) {
            ps_maintenance_tick_now();
        }
    }
    return NULL;
}

static void free_shared(void) {
    for (size_t i = 0; i < SHARED; i++) {
        if (x_shared[i] != NULL) {
            ps_heap_free(x_shared[i]);
            x_shared[i] = NULL;
        }
    }
}

static void check_empty(void) {
    free_shared();
    for (int i = 1; i < PARTS; i++) {
        struct ps_partition_use use = use_of(i);
        CHECK_EQ(use.live_bytes, 0);
        CHECK_EQ(use.live_count, 0);
        CHECK_EQ(use.large_count, 0);
        CHECK(ps_partition_destroy(parts[i]));
    }
}

static void exchange_in_threads(void) {
    pthread_t workers[WORKERS];
    static uint64_t seeds[WORKERS] = {3, 5, 7};
    begin_parts();
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = announced_create(exchange_blocks, &seeds[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        /* Another thread may have been between two words of x_shared, or of a count. */
        for (int i = 1; i < PARTS; i++) {
            for (size_t bytes = 1; bytes < 2 * MIB; bytes = bytes * 3 / 2 + 1) {
                void *block = ps_partition_alloc(parts[i], bytes, 1, true);
                CHECK(block != NULL && engine_is_zero(block, bytes));
                memset(block, 1, bytes);
                ps_heap_free(block);
            }
            CHECK(ps_partition_destroy(parts[i]));
        }
        begin_parts();
        churn(2000, 3);
        live_end_all(live, LIVE);
        _exit(unit_failures != 0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i], NULL);
    }
    check_empty();
}

static void churn_in_mode(void) {
    begin_parts();
    churn(30000 / FRESH_SLOWNESS, 13);
    live_end_all(live, LIVE);
    check_empty();
}

FRESH_TEST(the_plain_mode_exchanges_blocks_between_threads) { exchange_in_threads(); }

FRESH_TEST(level_1_serves_partitions) {
    engine_config.harden = 1;
    churn_in_mode();
}

FRESH_TEST(level_2_serves_partitions) {
    engine_config.harden = 2;
    churn_in_mode();
}

FRESH_TEST(level_3_serves_partitions) {
    engine_config.harden = 3;
    churn_in_mode();
}

/* A class of partitions alone, beyond small_max_bytes. */
FRESH_TEST(level_2_quarantines_longer_blocks_of_partitions) {
    engine_config.harden = 2;
    engine_config.small_max_bytes = 512;
    struct ps_partition *part = ps_partition_create(NULL, 0);
    REQUIRE(part != NULL);
    for (int i = 0; i < 4000; i++) {
        void *first = ps_partition_alloc(part, 2000, 1, false);
        ps_heap_free(first);
        for (int frees = 0; frees < 8; frees++) {
            void *other = ps_partition_alloc(part, 2000, 1, false);
            CHECK(other != first);
            ps_heap_free(other);
        }
    }
}

FRESH_TEST(blocks_that_leave_the_quarantine_early_are_counted) {
    engine_config.harden = 2;
    struct ps_partition *part = ps_partition_create(NULL, 0);
    REQUIRE(part != NULL && ps_partition_add_fronts(part));
    static void *blocks[500];
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = ps_partition_alloc(part, 64, 1, false);
    }
    for (size_t i = 0; i < 500; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_mode.hook.reclaim();
    ps_front_flush();
    CHECK_EQ(ps_load_relaxed(&part->x_live_count), 0);
    CHECK_EQ(ps_load_relaxed(&part->x_live_bytes), 0);
}

FRESH_TEST(level_3_exchanges_blocks_between_threads) {
    engine_config.harden = 3;
    exchange_in_threads();
}

FRESH_TEST(a_recorded_process_serves_partitions) {
    engine_config.record = true;
    churn_in_mode();
}

/* Most blocks are samples. */
FRESH_TEST(a_profiled_process_serves_partitions) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = 100;
    churn_in_mode();
}

FRESH_TEST(a_profiled_process_exchanges_blocks_between_threads) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = 1000;
    exchange_in_threads();
}

FRESH_TEST(guarded_samples_leave_partitions_alone) {
    engine_config.guard_sample = 50;
    churn_in_mode();
}

FRESH_TEST(freed_memory_of_a_partition_returns_to_the_system) {
    begin_parts();
    void *blocks[64];
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = ps_partition_alloc(parts[1], (i + 1) * 4 * KIB, 1, false);
        memset(blocks[i], 1, (i + 1) * 4 * KIB);
    }
    for (size_t i = 0; i < 64; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK(use_of(1).held_bytes > MIB);
    WHEN("it has been free for a purge delay");
    for (int i = 0; i < 200; i++) {
        fake_os_advance_ms(10);
        ps_maintenance_tick_now();
    }
    CHECK_EQ(use_of(1).held_bytes, 0);
    CHECK_EQ(engine_census().cache_dirty_bytes, 0);
}

UNIT_MAIN
