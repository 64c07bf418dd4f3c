// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The pool of guarded samples: places of blocks, their access, and the order of slots. */
#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "tests/unit/engine.h"

#include <pthread.h>

#define SLOTS 8

static size_t page_bytes;

/* The trace hook: allocates, as an unwinder may. */
static int traces;
static int fault_traces;
static bool has_inner_guarded;

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    if (instruction != 0) {
        __atomic_add_fetch(&fault_traces, 1, __ATOMIC_RELAXED);
        return 0;
    }
    traces++;
    void *block = ps_heap_alloc(40);
    has_inner_guarded |= ps_page_map_slot(block)->run.kind == PS_RUN_GUARD;
    ps_heap_free(block);
    sites[0] = 4711;
    return limit < 1 ? 0 : 1;
}

static void start(void) {
    engine_config.guard_sample = 1;
    engine_config.guard_slots = SLOTS;
    page_bytes = ps_os_page_bytes();
    ps_engine_start();
    REQUIRE(ps_guard_period == 1);
}

static char *take(size_t bytes) { return ps_guard_try(bytes); }

/* Whether the kernel can read a byte there: it says EFAULT where we may not. */
static bool is_accessible(const char *address) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    bool is_written = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return is_written;
}

static bool is_at_end(const char *block, size_t bytes) {
    return ((uintptr_t)block + ps_max(bytes, 1) + 15) % page_bytes < 16;
}

FRESH_TEST(the_census_counts_live_samples_and_the_pages_of_all) {
    start();
    char *blocks[] = {take(1), take(5000), take(0)};
    struct ps_census census = engine_census();
    CHECK_EQ(census.guard_live_count, 3);
    CHECK_EQ(census.guard_live_bytes, 5001);
    CHECK_EQ(census.guard_held_bytes, 2 * page_bytes + ps_round_up(5000, page_bytes));
    uint64_t mapped_bytes = census.mapped_bytes;
    for (size_t i = 0; i < 3; i++) {
        ps_heap_free(blocks[i]);
    }
    census = engine_census();
    CHECK_EQ(census.guard_live_count, 0);
    CHECK_EQ(census.guard_live_bytes, 0);
    CHECK_EQ(census.mapped_bytes, mapped_bytes); /* freed slots retain their pages */
    WHEN("the slots are used again by blocks that are not larger");
    uint64_t held_bytes = 0;
    for (size_t i = 0; i < 3 * SLOTS; i++) {
        ps_heap_free(take(1));
        held_bytes = i == SLOTS ? engine_census().guard_held_bytes : held_bytes;
    }
    CHECK_EQ(engine_census().guard_held_bytes, held_bytes);
    CHECK_EQ(engine_census().guard_live_count, 0);
}

FRESH_TEST(blocks_lie_at_either_side_between_forbidden_pages) {
    start();
    size_t at_end = 0;
    size_t count = 0;
    for (size_t bytes = 0; bytes <= 16 * KIB; bytes += 41, count++) {
        char *block = take(bytes);
        REQUIRE(block != NULL);
        struct ps_guard_range pages = ps_guard_pages(ps_guard_record_of(block));
        CHECK_EQ((uintptr_t)block % (bytes > 8 ? 16 : 8), 0);
        CHECK_CMP(pages.end - pages.first, <, ps_max(bytes, 1) + page_bytes);
        CHECK(!is_accessible(pages.first - 1) && !is_accessible(pages.end));
        CHECK(is_accessible(pages.first) && is_accessible(pages.end - 1));
        CHECK_EQ(ps_block_usable(block), bytes);
        bool is_begin = block == pages.first;
        CHECK(is_begin || is_at_end(block, bytes));
        at_end += !is_begin;
        memset(block, 1, bytes);
        ps_heap_free(block);
        CHECK(!is_accessible(block) && !is_accessible(pages.end - 1));
    }
    CHECK_CMP(at_end, >, count / 4);
    CHECK_CMP(at_end, <, count * 3 / 4);
}

FRESH_TEST(blocks_of_an_aligned_size_are_aligned_to_it) {
    start();
    for (size_t align = 16; align <= 16 * KIB; align *= 2) {
        for (size_t bytes = align; bytes <= 16 * KIB && bytes <= 5 * align; bytes += align) {
            for (int i = 0; i < 8; i++) { /* either side */
                char *block = take(bytes);
                CHECK_EQ((uintptr_t)block % ps_min(align, page_bytes), 0);
                ps_heap_free(block);
            }
        }
    }
}

static void check_aligned_requests(void) {
    start();
    for (size_t align = 16; align <= 4 * KIB; align *= 2) {
        for (size_t bytes = 1; bytes <= 3 * align; bytes += 13) {
            for (int i = 0; i < 4; i++) { /* either side */
                char *block = ps_block_alloc_aligned(bytes, align);
                CHECK_EQ((uintptr_t)block % align, 0);
                CHECK_CMP(ps_block_usable(block), >=, bytes);
                ps_heap_free(block);
            }
        }
    }
}

FRESH_TEST(samples_of_aligned_requests_are_aligned) { check_aligned_requests(); }

FRESH_TEST(samples_of_aligned_requests_are_aligned_among_hardened_blocks) {
    engine_config.harden = 3;
    check_aligned_requests();
}

FRESH_TEST(freed_slots_are_reused_oldest_first) {
    start();
    char *blocks[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        blocks[i] = take(100);
        REQUIRE(blocks[i] != NULL);
    }
    CHECK_PTR_EQ(take(100), NULL);
    static const int order[] = {3, 1, 7, 0};
    for (size_t i = 0; i < 4; i++) {
        ps_heap_free(blocks[order[i]]);
    }
    for (size_t i = 0; i < 4; i++) {
        char *again = take(100);
        CHECK_PTR_EQ(ps_guard_record_of(again), ps_guard_record_of(blocks[order[i]]));
    }
    CHECK_PTR_EQ(take(100), NULL);
}

FRESH_TEST(live_blocks_have_slots_of_their_own_in_any_order_of_frees) {
    static char *blocks[SLOTS];
    start();
    for (int i = 0; i < 100 * SLOTS; i++) {
        char **block = &blocks[unit_random() % SLOTS];
        if (*block != NULL) {
            ps_heap_free(*block);
            *block = NULL;
            continue;
        }
        char *taken = take(100);
        REQUIRE(taken != NULL);
        for (size_t j = 0; j < SLOTS; j++) {
            CHECK(blocks[j] == NULL || ps_guard_record_of(blocks[j]) != ps_guard_record_of(taken));
        }
        *block = taken;
    }
}

FRESH_TEST(a_slot_stays_forbidden_until_all_others_were_used) {
    start();
    char *freed = take(100);
    ps_heap_free(freed);
    for (int i = 0; i < SLOTS - 1; i++) {
        ps_heap_free(take(100));
        CHECK(!is_accessible(freed));
    }
    char *again = take(100);
    CHECK_PTR_EQ(ps_guard_record_of(again), ps_guard_record_of(freed));
}

FRESH_TEST(a_refused_protection_loses_no_slot) {
    start();
    ps_heap_free(take(100)); /* a slab is there: the first block makes memory accessible, too */
    ps_heap_free(ps_heap_alloc(100));
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PROTECT));
    for (int i = 0; i < 3 * SLOTS; i++) {
        CHECK_PTR_EQ(take(100), NULL);
        void *block = ps_heap_alloc(100);
        CHECK(block != NULL);
        ps_heap_free(block);
    }
    fake_os_refuse(0);
    for (int i = 0; i < SLOTS; i++) {
        CHECK(take(100) != NULL);
    }
    CHECK_PTR_EQ(take(100), NULL);
}

TEST(without_memory_for_the_pool_there_is_no_sampling) {
    for (uint64_t nth = 1; nth < 20; nth++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            engine_config.guard_sample = 1;
            fake_os_fail_nth(nth);
            void *block = ps_heap_alloc(100);
            bool has_failed = fake_os_has_failed();
            fake_os_fail_nth(0);
            void *other = ps_heap_alloc(100);
            REQUIRE(other != NULL);
            REQUIRE(block != NULL || has_failed);
            ps_heap_free(block);
            ps_heap_free(other);
            _exit(0);
        }
        int status = 1;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
    }
}

FRESH_TEST(large_blocks_are_not_sampled) {
    start();
    size_t largest = ps_os_page_bytes() > 16 * KIB ? ps_os_page_bytes() : 16 * KIB;
    CHECK_PTR_EQ(take(largest + 1), NULL);
    CHECK(take(largest) != NULL);
}

FRESH_TEST(allocations_of_a_trace_are_not_sampled) {
    start();
    void *block = ps_heap_alloc(100);
    CHECK_EQ(ps_page_map_slot(block)->run.kind, PS_RUN_GUARD);
    CHECK_EQ(traces, 1);
    const struct ps_guard_record *record = ps_guard_record_of(block);
    CHECK_EQ(record->allocated.count, 1);
    CHECK_EQ(record->allocated.sites[0], 4711);
    ps_heap_free(block);
    CHECK_EQ(traces, 2);
    CHECK_EQ(record->freed.count, 1);
    CHECK(!has_inner_guarded);
}

FRESH_TEST(zeroed_samples_are_zero) {
    start();
    for (int round = 0; round < 2; round++) {
        for (size_t bytes = 0; bytes <= 16 * KIB; bytes += 523) {
            char *block = ps_block_zalloc(bytes);
            CHECK_EQ(ps_page_map_slot(block)->run.kind, PS_RUN_GUARD);
            for (size_t i = 0; i < bytes; i++) {
                REQUIRE(block[i] == 0);
            }
            memset(block, 1, bytes);
            ps_heap_free(block);
        }
    }
    char *longer = ps_block_zalloc(16 * KIB + 1);
    CHECK(longer != NULL && longer[16 * KIB] == 0);
    ps_heap_free(longer);
}

FRESH_TEST(misuse_ends_with_a_report) {
    start();
    char *block = take(100);
    CHECK_ABORTS(ps_heap_free(block + 8), "poolshim: free of interior pointer 0x");
    CHECK_ABORTS((block[100] = 1, ps_heap_free(block)), "poolshim: free after heap overflow at 0x");
    CHECK_ABORTS((void)ps_block_usable(block + 1), "size of interior pointer");
    char *never = ps_guard_pool.base + (SLOTS - 1) * ps_guard_slot_bytes();
    CHECK_ABORTS(ps_heap_free(never), "poolshim: free of foreign pointer 0x");
    ps_heap_free(block);
    CHECK_ABORTS(ps_heap_free(block), "poolshim: double free of 0x");
    CHECK_ABORTS((void)ps_block_resize(block, 10), "poolshim: realloc of free block 0x");
    CHECK_ABORTS((void)ps_block_usable(block), "size of free block 0x");
}

FRESH_TEST(every_byte_around_a_block_is_checked) {
    start();
    for (int round = 0; round < 4; round++) {
        char *block = take(3000 + (size_t)round);
        struct ps_guard_range pages = ps_guard_pages(ps_guard_record_of(block));
        for (char *at = pages.first; at < pages.end; at += 173) {
            if (at < block || at >= block + 3000 + round) {
                CHECK_ABORTS((*at ^= 1, ps_heap_free(block)), "poolshim: free after heap");
            }
        }
        ps_heap_free(block);
    }
}

static void *claim_fault(void *block) {
    struct ps_fault fault = {
        .address = block, .instruction = (uintptr_t)claim_fault, .access = PS_FAULT_WRITE};
    CHECK(ps_guard_claim(&fault));
    return NULL;
}

FRESH_TEST(of_many_threads_that_fault_one_reports) {
    start();
    pthread_t threads[16];
    char *block = take(100);
    ps_heap_free(block);
    for (size_t i = 0; i < 16; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, claim_fault, block) == 0);
    }
    for (size_t i = 0; i < 16; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_EQ(fault_traces, 1);
    struct ps_fault elsewhere = {
        .address = (const char *)&elsewhere, .instruction = 1, .access = PS_FAULT_READ};
    CHECK(!ps_guard_claim(&elsewhere));
}

UNIT_MAIN
