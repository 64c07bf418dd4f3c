/* SPDX-License-Identifier: MIT */
/*
 * Blocks of classes of which a span has few, in a process whose heaps come first: what returns to a
 * full span waits in the processor's cache. Over the real OS, on one processor, since the fake one
 * has no restartable sequences.
 */
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/cpu_first.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/record/census.h"
#include "tests/unit/fresh.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096
#define BLOCKS 400
#define SHORT_BYTES 1024

static char *blocks[BLOCKS];

static size_t kept(void) { return ps_cpu_cache_blocks(ps_size_class_of(BYTES)); }

static struct ps_span *span_of(const void *block) { return ps_span_at(block); }

static bool is_full(const void *block) { return span_of(block)->place == PS_PLACE_FULL; }

/* False: this system has no restartable sequences, so nothing is kept. */
static bool start(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    ps_engine_start();
    return ps_rseq_is_on();
}

static void allocate(size_t bytes) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        memset(blocks[i], (int)(i % 256), bytes);
    }
}

/* One block of each full span is freed, and allocated again if it was not kept; until there is a
 * cache. Returns the index of a block of a full span. */
static size_t make_cache(void) {
    size_t i = 0;
    for (int tries = 0; kept() == 0; tries++) {
        REQUIRE(tries < 100 * BLOCKS);
        i = (i + 17) % BLOCKS;
        if (is_full(blocks[i])) {
            ps_heap_free(blocks[i]);
            blocks[i] = kept() == 0 ? ps_heap_alloc(BYTES) : NULL;
        }
    }
    return i;
}

static size_t count_live(void) {
    size_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        live += blocks[i] != NULL;
    }
    return live;
}

/* Frees the rest; everything has returned. */
static void end(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_heap_trim(0);
    struct ps_census census;
    ps_census_take(&census);
    CHECK_EQ(kept(), 0);
    CHECK_EQ(census.small_live_bytes, 0);
    CHECK_EQ(census.malloc_count, census.free_count);
}

/* Frees a block of a full span, and returns it. */
static char *keep_one(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL && is_full(blocks[i])) {
            char *block = blocks[i];
            size_t before = kept();
            blocks[i] = NULL;
            ps_heap_free(block);
            if (kept() > before) {
                return block;
            }
        }
    }
    REQUIRE(!"no block is kept");
    return NULL;
}

FRESH_TEST(what_returns_to_a_full_span_serves_the_next_request_that_finds_no_other) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    char *block = keep_one();
    CHECK(is_full(block));
    struct ps_census census;
    ps_census_take(&census);
    CHECK_EQ(census.malloc_count - census.free_count, count_live());
    size_t before = kept();
    char *found = NULL;
    char *others[BLOCKS];
    size_t count = 0;
    while (found != block) { /* what the current span has comes first */
        REQUIRE(count < BLOCKS);
        found = ps_heap_alloc(BYTES);
        others[count++] = found;
    }
    CHECK_EQ(kept(), before - 1);
    CHECK(is_full(block));
    memset(block, 0xff, BYTES);
    while (count-- > 0) {
        ps_heap_free(others[count]);
    }
    end();
}

#define PAIRS 200

FRESH_TEST(a_program_that_needs_no_other_blocks_reads_the_clock) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    uint64_t takes = ps_cpu_cache_takes();
    for (size_t i = 0; i < BLOCKS && ps_cpu_cache_takes() == takes; i++) {
        if (blocks[i] == NULL) { /* what the current span has comes first */
            blocks[i] = ps_heap_alloc(BYTES);
        }
    }
    char *more[BLOCKS];
    size_t count = 0;
    while (ps_cpu_cache_takes() == takes && count < BLOCKS) {
        more[count++] = ps_heap_alloc(BYTES);
    }
    char *block = keep_one();
    takes = ps_cpu_cache_takes();
    struct ps_heap *heap = ps_heap_of_key(ps_load_relaxed(&span_of(block)->x_owner));
    heap->x_active_ms = 0;
    for (int i = 0; i < PAIRS; i++) {
        ps_heap_free(ps_heap_alloc(BYTES));
    }
    CHECK_CMP(ps_cpu_cache_takes() - takes, >, PAIRS / 2);
    CHECK(heap->x_active_ms != 0);
    while (count-- > 0) {
        ps_heap_free(more[count]);
    }
    end();
}

static void *free_block(void *block) {
    ps_heap_free(ps_heap_alloc(1)); /* it has a heap */
    ps_heap_free(block);
    return NULL;
}

static void free_in_another_thread(void *block) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_block, block) == 0);
    pthread_join(thread, NULL);
}

FRESH_TEST(a_second_free_of_a_kept_block_is_reported) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    char *block = keep_one();
    CHECK_ABORTS(ps_heap_free(block), "poolshim: double free of 0x");
    CHECK_ABORTS(free_in_another_thread(block), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_block_usable(block), "poolshim: size of free block 0x");
    CHECK_ABORTS(ps_block_resize(block, 2 * BYTES), "poolshim: realloc of free block 0x");
    end();
}

FRESH_TEST(a_write_to_a_kept_block_is_reported_when_it_is_taken) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    memset(keep_one(), 0x55, 8);
    CHECK_ABORTS(ps_cpu_return_all(ps_remote_return), "poolshim: ");
}

FRESH_TEST(short_blocks_are_not_kept) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache(); /* there is one */
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    allocate(SHORT_BYTES);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i * 37 % BLOCKS]);
        CHECK_EQ(ps_cpu_cache_blocks(ps_size_class_of(SHORT_BYTES)), 0);
        blocks[i * 37 % BLOCKS] = NULL;
    }
    end();
}

FRESH_TEST(no_more_is_kept_of_a_class_than_its_share) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t k = i * 37 % BLOCKS;
            ps_heap_free(blocks[k]);
            CHECK_CMP(kept(), <=, PS_CPU_CACHE_BYTES / BYTES);
            blocks[k] = i % 3 != 0 ? ps_heap_alloc(BYTES) : NULL;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = blocks[i] != NULL ? blocks[i] : ps_heap_alloc(BYTES);
        }
    }
    end();
}

FRESH_TEST(nothing_is_kept_while_memory_is_short) {
    if (!start()) {
        return;
    }
    allocate(BYTES);
    (void)make_cache();
    ps_cpu_return_all(ps_remote_return);
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i * 37 % BLOCKS]);
        blocks[i * 37 % BLOCKS] = NULL;
        CHECK_EQ(kept(), 0);
    }
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    end();
}

/* ---- forks ---- */

#define SLOTS 200
#define FORKS 60

static char *x_slots[SLOTS]; /* of the other thread; NULL while it replaces a block */
static uint32_t x_must_end;

static void *replace_all(void *unused) {
    uint32_t random = 1;
    (void)unused;
    while (ps_load_acquire(&x_must_end) == 0) { /* acquire: the test has ended */
        random = random * 1664525 + 1013904223;
        char **slot = &x_slots[random / 65536 % SLOTS];
        char *block = *slot;
        /* relaxed, both: the child reads what was there at the fork. */
        ps_store_relaxed(slot, (char *)NULL);
        ps_heap_free(block);
        block = ps_heap_alloc(BYTES);
        memset(block, (int)(slot - x_slots), BYTES);
        ps_store_relaxed(slot, block);
    }
    return NULL;
}

/* No block of the thread that does not exist here is free. */
static void use_and_free_all(void) {
    allocate(BYTES);
    for (size_t i = 0; i < SLOTS; i++) {
        char *block = x_slots[i];
        for (size_t k = 0; block != NULL && k < BYTES; k++) {
            REQUIRE(block[k] == (char)i);
        }
        ps_heap_free(block);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; k < BYTES; k++) {
            REQUIRE(blocks[i][k] == (char)(i % 256));
        }
        ps_heap_free(blocks[i]);
    }
    ps_heap_trim(0);
}

FRESH_TEST(the_child_of_a_fork_finds_no_kept_block_live) {
    pthread_t thread;
    cpu_set_t all;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    if (!start()) {
        return;
    }
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
    for (size_t i = 0; i < SLOTS; i++) {
        x_slots[i] = ps_heap_alloc(BYTES);
        memset(x_slots[i], (int)i, BYTES);
    }
    REQUIRE(pthread_create(&thread, NULL, replace_all, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            use_and_free_all();
            _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    ps_store_release(&x_must_end, 1u); /* release: pairs with replace_all */
    pthread_join(thread, NULL);
    CHECK_CMP(ps_cpu_cache_takes(), >, 0);
}

UNIT_MAIN
