// marks: slow
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out at every possible moment: one call of the OS fails, the first, the second, and
 * so on. That call returns NULL with ENOMEM, nothing is lost, and then all works again.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define CALLS_MAX 500
#define BLOCKS 60

static struct live_block blocks[BLOCKS];
static size_t refused_count; /* calls of ours that got NULL */

/* Checks what a call that may fail returned; true when there is a block. */
static bool is_given(const void *block) {
    if (block == NULL) {
        CHECK_EQ(errno, ENOMEM);
        refused_count++;
    }
    errno = 0;
    return block != NULL;
}

static void allocate(struct live_block *live, size_t bytes, size_t kind) {
    errno = 0;
    void *block = kind == 0   ? ps_block_zalloc(bytes)
                  : kind == 1 ? ps_block_alloc_aligned(bytes, 4096)
                              : ps_heap_alloc(bytes);
    if (is_given(block)) {
        CHECK(kind != 0 || engine_is_zero(block, bytes));
        live_start(live, block, bytes, bytes);
    }
}

static void resize(struct live_block *live, size_t bytes) {
    errno = 0;
    if (!live_resize(live, bytes, bytes + 1)) {
        is_given(NULL);
    }
}

/* The same calls each time, of every kind and size, so that each call of the OS has its turn. */
static void use_heap(void *unused) {
    (void)unused;
    uint64_t state = 2026;
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t bytes = engine_random(&state) % (engine_random(&state) % 30000 + 1);
            bytes = i % 6 == 0 ? 70 * KIB << ((i / 6 + round) % 5) : bytes; /* to 1120 KiB */
            if (blocks[i].address == NULL) {
                allocate(&blocks[i], bytes, i % 4);
            } else if (i % 3 == 0) {
                resize(&blocks[i], bytes + 1);
            } else {
                live_end(&blocks[i]);
            }
        }
        fake_os_advance_ms(400);
        ps_maintenance_trim(64 * KIB);
    }
}

static void free_all(void *unused) {
    (void)unused;
    live_end_all(blocks, BLOCKS);
    ps_maintenance_trim(0);
}

/* All that was allocated is returned, and counted. */
static void check_nothing_lost(void) {
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.small_slab_bytes, 0);
    CHECK_EQ(census.cache_dirty_bytes, 0);
    CHECK_EQ(fake_os_breaches(), 0);
}

static uint64_t failing_call;
static size_t page_bytes; /* 0: the machine's */

/* In a process whose engine has not started: the nth call fails, by a second thread's too. */
static void fail_one_call(void) {
    fake_os_set_page_bytes(page_bytes);
    engine_config.mmap_min_bytes = 256 * KIB; /* many calls of the system for little memory */
    engine_config.cache_max_bytes = 1 * MIB;
    fake_os_fail_nth(failing_call);
    use_heap(NULL);
    worker_do_and_end(use_heap, NULL);
    bool has_failed = fake_os_has_failed();
    fake_os_fail_nth(0);
    size_t refused_before = refused_count;
    use_heap(NULL);
    CHECK_EQ(refused_count, refused_before); /* works again */
    worker_do_and_end(free_all, NULL);
    free_all(NULL);
    check_nothing_lost();
    if (!has_failed) {
        _exit(unit_failures == 0 ? 3 : 1); /* so many calls were not made */
    }
}

static void fail_every_call(uint64_t step) {
    uint64_t made = 0;
    for (failing_call = 1; failing_call <= CALLS_MAX; failing_call += step) {
        int status = fresh_status(fail_one_call);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
            break; /* the calls have an end: all of them have failed once */
        }
        if (status != 0) {
            printf("when call %d of the system failed:\n", (int)failing_call);
        }
        CHECK_EQ(status, 0);
        made = failing_call;
    }
    printf("calls of the system that failed, one each time: up to %d\n", (int)made);
    CHECK_CMP(made, >, 100);
    CHECK_CMP(made, <, CALLS_MAX - step);
}

TEST(any_single_failure_of_the_system_is_survived) { fail_every_call(2 * FRESH_SLOWNESS - 1); }

TEST(any_single_failure_is_survived_with_pages_of_16_KiB) {
    page_bytes = 16 * KIB;
    fail_every_call(4 * FRESH_SLOWNESS - 1);
}

TEST(any_single_failure_is_survived_with_pages_of_64_KiB) {
    page_bytes = 64 * KIB;
    fail_every_call(4 * FRESH_SLOWNESS - 1);
}

static void refuse_everything_from_the_start(void) {
    fake_os_set_page_bytes(page_bytes);
    fake_os_refuse(FAKE_OS_ALL);
    for (int round = 0; round < 3; round++) {
        size_t refused_before = refused_count;
        for (size_t i = 0; i < BLOCKS; i++) {
            allocate(&blocks[i], i * i, i % 4);
            CHECK_PTR_EQ(blocks[i].address, NULL);
        }
        CHECK_EQ(refused_count, refused_before + BLOCKS);
    }
    fake_os_refuse(0);
    use_heap(NULL);
    free_all(NULL);
    check_nothing_lost();
}

TEST(a_system_that_refuses_everything_from_the_start_gives_enomem) {
    static const size_t sizes[] = {0, 16 * KIB, 64 * KIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        page_bytes = sizes[i];
        fresh_run(refuse_everything_from_the_start);
    }
}

/* In a process whose engine has not started: all system calls fail from the nth on. Earlier blocks
 * remain valid, and when the system works again, so does everything. */
static void fail_from_one_call_on(void) {
    fake_os_set_page_bytes(page_bytes);
    engine_config.mmap_min_bytes = 256 * KIB;
    engine_config.cache_max_bytes = 1 * MIB;
    fake_os_fail_from(failing_call);
    use_heap(NULL);
    worker_do_and_end(use_heap, NULL);
    CHECK(fake_os_has_failed());
    fake_os_fail_from(0);
    free_all(NULL);
    size_t refused_before = refused_count;
    use_heap(NULL);
    CHECK_EQ(refused_count, refused_before);
    worker_do_and_end(free_all, NULL);
    free_all(NULL);
    check_nothing_lost();
}

TEST(any_moment_from_which_all_calls_fail_is_survived) {
    static const size_t sizes[] = {0, 16 * KIB, 64 * KIB};
    for (failing_call = 1; failing_call <= 100; failing_call += 9) {
        page_bytes = sizes[failing_call / 9 % 3];
        fresh_run(fail_from_one_call_on);
    }
}

FRESH_TEST(memory_can_be_used_to_the_last_block) {
    static struct live_block small[3000];
    GIVEN("an arena of 2 MiB and no more");
    ps_heap_free(ps_heap_alloc(1));
    ps_maintenance_trim(0);
    fake_os_refuse(0);
    size_t count = 0;
    size_t arena_bytes = engine_census().arena_bytes;
    void *rest = ps_heap_alloc(arena_bytes > 4 * MIB ? 4 * MIB - 4096 : 64 * KIB);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    WHEN("blocks of 16 KiB are taken until memory is exhausted");
    for (;;) {
        allocate(&small[count], 16 * KIB, 2);
        if (small[count].address == NULL) {
            break;
        }
        count++;
    }
    CHECK_EQ(refused_count, 1);
    THEN("nearly all of it has been allocated");
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census.cache_dirty_bytes + census.cache_clean_bytes, 0);
    CHECK_EQ(census_live_blocks(&census), count + 1);
    for (int round = 0; round < 100; round++) { /* one back, one out */
        live_end(&small[(size_t)round * 7 % count]);
        allocate(&small[(size_t)round * 7 % count], 16 * KIB, 2);
        CHECK(small[(size_t)round * 7 % count].address != NULL);
    }
    ps_heap_free(rest);
    live_end_all(small, count);
    ps_maintenance_trim(0);
    check_nothing_lost();
}

static size_t allocate_all(size_t bytes) {
    size_t count = 0;
    while (ps_heap_alloc(bytes) != NULL) {
        count++;
    }
    return count;
}

FRESH_TEST(what_other_sizes_have_left_serves_any) {
    static void *of_classes[12];
    static void *medium[10];
    void *mapping = ps_heap_alloc(10 * MIB);
    for (size_t i = 0; i < 12; i++) {
        of_classes[i] = ps_heap_alloc(64 << i / 2);
    }
    for (size_t i = 0; i < 10; i++) {
        medium[i] = ps_heap_alloc(100 * KIB);
    }
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    (void)allocate_all(600 * KIB);
    (void)allocate_all(24);
    WHEN("blocks of other classes are freed, whose slabs serve the short requests, too");
    for (size_t i = 0; i < 12; i++) {
        ps_heap_free(of_classes[i]);
    }
    CHECK_EQ(allocate_all(24), 12);
    WHEN("medium blocks are freed");
    for (size_t i = 0; i < 10; i++) {
        ps_heap_free(medium[i]);
    }
    CHECK_CMP(allocate_all(24), >, 20000);
    WHEN("a mapping is freed and cached");
    ps_heap_free(mapping);
    CHECK_EQ(engine_census().map_cached_bytes, 10 * MIB);
    CHECK_EQ(allocate_all(24), 0);
    CHECK_EQ(engine_census().map_cached_bytes, 0); /* the system may give its addresses */
}

static void allocate_late(void *unused) {
    (void)unused;
    ps_front_thread_ended();
    fake_os_refuse(FAKE_OS_ALL);
    allocate(&blocks[0], 100, 2);
    allocate(&blocks[1], 100 * KIB, 2);
    fake_os_refuse(0);
    CHECK_EQ(refused_count, 2);
    allocate(&blocks[0], 100, 2);
    allocate(&blocks[1], 100 * KIB, 2);
    CHECK_EQ(refused_count, 2);
}

FRESH_TEST(a_thread_past_its_end_gets_enomem_too) {
    worker_do_and_end(allocate_late, NULL);
    live_end_all(blocks, 2);
    CHECK_EQ(engine_census().run_live_count, 0);
}

UNIT_MAIN
