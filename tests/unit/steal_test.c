// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Full spans that are on no list, taken over by others: stolen from an owner that sleeps, adopted
 * or orphaned when their thread has ended; and the heaps that new threads cannot use because of
 * such spans.
 */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_remote.h"

ENGINE_HEAPS
ENGINE_LONG_CLASSES

#define SPANS 40
#define BLOCK_LIMIT (SPANS * 64)

static struct live_block blocks[BLOCK_LIMIT];
static size_t block_bytes = 8192; /* 8 in a span */
static uint32_t class_index;
static size_t span_blocks;
static size_t block_count; /* of SPANS full spans, one after the other, and one more block */

static void choose(size_t bytes) {
    ps_engine_start();
    block_bytes = bytes;
    class_index = ps_size_class_of(bytes);
    const struct ps_size_class *class = &ps_size_classes[class_index];
    span_blocks = (size_t)(class->limit - class->first);
    block_count = SPANS * span_blocks;
}

static void fill_spans(void *unused) {
    (void)unused;
    live_start_all(blocks, block_count, block_bytes);
    /* The bin detaches from the last one when it refills. */
    ps_heap_free(ps_heap_alloc(block_bytes));
}

static void free_all(void *unused) {
    (void)unused;
    live_end_all(blocks, block_count);
    (void)engine_census(); /* returns gathered blocks */
}

/* All but the first block of every span. */
static void free_most(void *unused) {
    (void)unused;
    for (size_t i = 0; i < block_count; i++) {
        if (i % span_blocks != 0) {
            live_end(&blocks[i]);
        }
    }
    (void)engine_census();
}

/* Needs a fresh span of a class of its own. */
static void need_memory(void *bytes) { ps_heap_free(ps_heap_alloc(*(const size_t *)bytes)); }

static size_t other_bytes = 300;

/* Needs fresh spans of several classes: a step per span. */
static void need_much_memory(void *unused) {
    (void)unused;
    for (size_t bytes = 100; bytes < 500; bytes += 90) {
        need_memory(&bytes);
    }
}

static uint64_t class_spans(void) { return engine_census().classes[class_index].spans; }

static void trim(void *unused) {
    (void)unused;
    ps_heap_trim(0);
}

static struct ps_heap *owner_of(const struct ps_span *span) {
    return ps_heap_of_key(ps_load_relaxed(&span->x_owner));
}

/* ---- stealing ---- */

static void check_steal(size_t bytes) {
    struct worker owner;
    struct worker needy;
    choose(bytes);
    worker_start(&owner);
    worker_start(&needy);
    GIVEN("an owner that sleeps while all of its blocks come back");
    worker_do(&owner, fill_spans, NULL);
    const void *last = blocks[block_count - 1].address;
    worker_do_and_end(free_all, NULL);
    CHECK_CMP(class_spans(), >=, SPANS);
    const struct ps_heap *heap = owner_of(ps_span_holding(ps_page_map_slot(last), last));
    WHEN("another thread needs memory");
    worker_do(&needy, need_much_memory, NULL);
    THEN("it has taken the spans, but for the one in the owner's bin and the drained one");
    CHECK_CMP(class_spans(), <=, 2);
    CHECK_EQ(heap->x_spans[class_index], class_spans());
    WHEN("the owner runs again");
    worker_do(&owner, fill_spans, NULL);
    worker_do(&owner, free_all, NULL);
    worker_do(&owner, trim, NULL);
    worker_stop(&needy);
    worker_stop(&owner);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(memory_of_a_sleeping_owner_serves_other_threads) {
    check_steal(8192);
    check_steal(1000);
    check_steal(20000);
}

FRESH_TEST(a_few_spans_are_not_worth_it) {
    struct worker owner;
    choose(8192);
    worker_start(&owner);
    worker_do(&owner, fill_spans, NULL);
    uint64_t spans = class_spans();
    for (size_t i = 0; i < 7 * span_blocks; i++) {
        live_end(&blocks[i]);
    }
    (void)engine_census();
    need_memory(&other_bytes);
    CHECK_EQ(class_spans(), spans);
    worker_do(&owner, trim, NULL); /* the owner still finds them */
    CHECK_CMP(class_spans(), <=, spans - 7);
    free_all(NULL);
    worker_stop(&owner);
    check_live_blocks(0);
}

FRESH_TEST(spans_with_a_block_in_use_stay_and_their_owner_still_learns_of_them) {
    struct worker owner;
    choose(8192);
    worker_start(&owner);
    worker_do(&owner, fill_spans, NULL);
    free_most(NULL);
    for (size_t i = 0; i < 10 * span_blocks; i += span_blocks) {
        live_end(&blocks[i]); /* ten are wholly back */
    }
    (void)engine_census();
    uint64_t spans = class_spans();
    need_much_memory(NULL);
    CHECK_EQ(class_spans(), spans - 10);
    struct ps_census census = engine_census();
    check_census(&census);
    THEN("the owner gets the room of the others without a new span");
    struct live_block *kept = malloc(sizeof blocks);
    memcpy(kept, blocks, sizeof blocks);
    block_count = (SPANS - 10) * (span_blocks - 1);
    worker_do(&owner, fill_spans, NULL);
    CHECK_CMP(class_spans(), <=, spans - 10 + 1);
    free_all(NULL);
    memcpy(blocks, kept, sizeof blocks);
    free(kept);
    choose(8192);
    free_all(NULL);
    worker_stop(&owner);
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* ---- spans and heaps of threads that ended ---- */

FRESH_TEST(full_spans_stay_with_a_heap_that_is_not_reused_before_they_drain) {
    choose(8192);
    ps_heap_free(ps_heap_alloc(8)); /* this thread has its heap */
    worker_do_and_end(fill_spans, NULL);
    struct ps_span *span = ps_span_at(blocks[0].address);
    const struct ps_heap *left = owner_of(span);
    CHECK_EQ(left->x_state, PS_HEAP_PARKED);
    CHECK(!left->is_offered);
    CHECK_EQ(left->x_spans[class_index], SPANS);
    CHECK_EQ(engine_census().heap_total_count, 2);
    WHEN("another thread comes");
    worker_do_and_end(need_memory, &other_bytes);
    THEN("it gets another heap, which serves all that follow");
    CHECK_EQ(engine_census().heap_total_count, 3);
    worker_do_and_end(need_memory, &other_bytes);
    CHECK_EQ(engine_census().heap_total_count, 3);
    WHEN("all blocks have come back");
    free_all(NULL);
    CHECK_EQ(left->x_spans[class_index], 0);
    CHECK(left->is_offered);
    THEN("both serve");
    struct worker workers[2];
    for (int i = 0; i < 2; i++) {
        worker_start(&workers[i]);
        worker_do(&workers[i], need_memory, &other_bytes);
    }
    CHECK_EQ(engine_census().heap_total_count, 3);
    CHECK_EQ(left->x_state, PS_HEAP_LIVE);
    worker_stop(&workers[0]);
    worker_stop(&workers[1]);
    ps_heap_trim(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(the_thread_that_frees_its_blocks_adopts_a_span_if_it_is_short_of_room) {
    choose(8192);
    ps_heap_free(ps_heap_alloc(8));
    struct ps_heap *heap = ps_thread.heap;
    worker_do_and_end(fill_spans, NULL);
    WHEN("blocks of two spans come back");
    struct ps_span *first = ps_span_at(blocks[0].address);
    struct ps_span *second = ps_span_at(blocks[span_blocks].address);
    for (size_t i = 0; i < 3; i++) {
        live_end(&blocks[i]);
        live_end(&blocks[span_blocks + i]);
    }
    (void)engine_census();
    THEN("the first to be looked at is adopted, the other an orphan");
    bool has_first = ps_heap_owns(heap, first);
    CHECK_EQ(has_first + ps_heap_owns(heap, second), 1);
    CHECK_EQ((has_first ? second : first)->x_owner, PS_KEY_ORPHAN);
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK_EQ(heap->x_spans[class_index], 1);
    CHECK_PTR_EQ(heap->available[class_index], has_first ? first : second);
    free_all(NULL);
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(only_the_parked_heap_of_that_key_lets_a_span_leave) {
    struct worker owner;
    choose(8192);
    ps_heap_free(ps_heap_alloc(8));
    worker_start(&owner);
    worker_do(&owner, fill_spans, NULL);
    struct ps_span *span = ps_span_at(blocks[0].address);
    uintptr_t key = span->x_owner;
    struct ps_heap *heap = ps_heap_of_key(key);
    CHECK(!ps_heap_leave_parked(span, key, PS_KEY_ORPHAN)); /* its thread lives */
    worker_stop(&owner);
    CHECK(!ps_heap_leave_parked(span, ps_heap_key(ps_thread.heap), PS_KEY_ORPHAN));
    CHECK_EQ(heap->x_spans[class_index], SPANS);
    CHECK(ps_heap_leave_parked(span, key, PS_KEY_ORPHAN));
    CHECK_EQ(heap->x_spans[class_index], SPANS - 1);
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK(!ps_heap_leave_parked(span, key, PS_KEY_ORPHAN)); /* once */
    THEN("the adopting thread has one until it has settled it");
    span = ps_span_at(blocks[span_blocks].address);
    CHECK_EQ(span->x_owner_detached, 1);
    uintptr_t new_key = ps_heap_key_of(ps_thread.heap, class_index);
    CHECK(ps_heap_leave_parked(span, key, new_key));
    CHECK_EQ(span->x_owner_detached, 0);
    CHECK_EQ(span->x_owner, new_key);
    ps_add_relaxed(&ps_thread.heap->x_spans[class_index], 1u);
    ps_heap_take_in(ps_thread.heap, span);
    CHECK_EQ(span->x_owner_detached, 1);
    free_all(NULL);
    ps_heap_trim(0);
    check_live_blocks(0);
}

static unsigned hand_back(struct ps_span *span, size_t from, size_t to) {
    unsigned all = 0;
    for (size_t i = from; i < to; i++) {
        char *block = ps_span_block(span, i);
        all |= ps_span_hand_list(span, block, block, 1);
    }
    return all;
}

/* A notice that is pushed, before its sender has checked whether the thread ended. */
static struct ps_heap *notice_half_sent(void) {
    choose(8192);
    ps_heap_free(ps_heap_alloc(8));
    block_count = span_blocks;
    worker_do_and_end(fill_spans, NULL);
    struct ps_span *span = ps_span_at(blocks[0].address);
    struct ps_heap *heap = owner_of(span);
    CHECK_EQ(heap->x_state, PS_HEAP_PARKED);
    CHECK_CMP(hand_back(span, span->first, span->limit) & PS_HANDED_NOTICE, !=, 0);
    for (size_t i = 0; i < block_count; i++) {
        blocks[i].address = NULL;
    }
    ps_store_relaxed(&span->x_notice_next, (struct ps_span *)NULL);
    ps_store_relaxed(&heap->x_notices, span);
    return heap;
}

static void forward(struct ps_heap *heap) {
    ps_thread_enter();
    ps_heap_forward_notices(heap);
    ps_thread_leave();
}

FRESH_TEST(a_notice_that_met_the_end_of_the_thread_is_forwarded) {
    struct ps_heap *heap = notice_half_sent();
    forward(heap);
    CHECK(heap->x_notices == NULL);
    CHECK(heap->is_offered);
    ps_heap_trim(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

/* All blocks are back: the child must find every span except those in another thread's hands. */
static void fork_and_find(uint64_t in_hand) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(FRESH_SECONDS_MAX);
        ps_heap_trim(0);
        CHECK_CMP(class_spans(), <=, in_hand);
    }
    unit_join_child(pid);
}

FRESH_TEST(a_fork_at_that_moment_does_not_lose_it) {
    struct ps_heap *heap = notice_half_sent();
    fork_and_find(0);
    forward(heap);
}

static uint32_t x_may_steal;

static void *steal_when_told(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(100 * KIB)); /* has a heap by now */
    while (ps_load_acquire(&x_may_steal) == 0) {
    }
    need_memory(&other_bytes);
    while (ps_load_acquire(&x_may_steal) != 0) { /* ends after the fork: see ThreadSanitizer */
    }
    return NULL;
}

/* The stealing thread may be between its list and the page cache, with one span: see
 * heap/start.h. */
FRESH_TEST(a_fork_during_a_steal_loses_at_most_the_present_span) {
    choose(8192);
    block_count = BLOCK_LIMIT;
    for (int round = 0; round < 5; round++) {
        fill_spans(NULL);
        worker_do_and_end(free_all, NULL);
        pthread_t thief;
        REQUIRE(pthread_create(&thief, NULL, steal_when_told, NULL) == 0);
        ps_store_release(&x_may_steal, 1u);
        while (ps_load_relaxed(&ps_thread.heap->x_notices) != NULL) {
        }
        WHEN("the stealing thread holds all notices of the owner");
        fork_and_find(1);
        ps_store_release(&x_may_steal, 0u);
        pthread_join(thief, NULL);
        ps_heap_trim(0);
        CHECK_EQ(class_spans(), 0);
    }
}

/* Between two steps of a steal, its list is on no heap. */
FRESH_TEST(a_fork_between_two_steps_of_a_steal_loses_none) {
    struct worker owner;
    choose(8192);
    worker_start(&owner);
    worker_do(&owner, fill_spans, NULL);
    worker_do_and_end(free_all, NULL);
    need_memory(&other_bytes);
    CHECK_CMP(class_spans(), >, 2);
    CHECK_CMP(class_spans(), <, SPANS);
    fork_and_find(2); /* the owner's bin and the drained one, of a thread that is not there */
    worker_do(&owner, trim, NULL);
    CHECK_EQ(class_spans(), 0);
    worker_stop(&owner);
}

/* ---- at the same time ---- */

#define SLOTS 64

static void *x_slots[SLOTS]; /* blocks that any thread frees */

/* A life: leaves blocks for others, frees what others left, needs memory of many classes. */
static void *live_a_life(void *argument) {
    uint64_t state = (uintptr_t)argument * 2654435761u + 1;
    for (int step = 0; step < 3000 / FRESH_SLOWNESS; step++) {
        size_t bytes = engine_random(&state) % 4 == 0 ? 8192 : 1000 + engine_random(&state) % 24000;
        void *block = ps_heap_alloc(bytes);
        REQUIRE(block != NULL);
        memset(block, (int)step, 64);
        void **slot = &x_slots[engine_random(&state) % SLOTS];
        ps_heap_free(ps_exchange_seq_cst(slot, block));
    }
    return NULL;
}

FRESH_TEST(threads_that_come_and_go_and_take_over_from_each_other_lose_nothing) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    ps_engine_start();
    for (uintptr_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, live_a_life, (void *)i) == 0);
    }
    for (uintptr_t life = THREADS; life < 24; life++) { /* always one ends and one begins */
        pthread_join(threads[life % THREADS], NULL);
        REQUIRE(pthread_create(&threads[life % THREADS], NULL, live_a_life, (void *)life) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        ps_heap_free(x_slots[i]);
    }
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
    CHECK_EQ(engine_census().orphan_span_count, 0);
    CHECK_CMP(engine_census().heap_total_count, <=, 24);
}

UNIT_MAIN
