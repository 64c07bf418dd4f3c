// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * A recorded program's blocks, compared with those that the test allocated: sizes and peaks.
 */
#include "pools/engine/record/record_peak.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include <sched.h>

#define SIZES 400
#define BLOCKS 30000

static void record(void) { engine_config.record = true; }

/* Live blocks of a size at a peak. */
static uint64_t live_at(const struct ps_record_peak *peak, size_t bytes) {
    for (size_t i = 0; i < peak->count; i++) {
        if (peak->entries[i].number == ps_record_number_of(bytes)) {
            return peak->entries[i].live_count;
        }
    }
    return 0;
}

/* Sums, and the order by size. */
static void check_entries(const struct ps_record_peak *peak) {
    uint64_t bytes = peak->large_bytes;
    uint64_t before = 0;
    for (size_t i = 0; i < peak->count; i++) {
        CHECK_CMP(peak->entries[i].number, >, before);
        before = peak->entries[i].number;
        CHECK_CMP(peak->entries[i].live_count, >, 0);
        bytes += peak->entries[i].live_count * ps_record_bytes_of(peak->entries[i].number);
    }
    CHECK_EQ(bytes, peak->live_bytes);
}

/* The highest peak; the recording is closed with it. */
static const struct ps_record_peak *highest_peak(void) {
    REQUIRE(ps_record_peak_finish() > 0);
    check_entries(ps_record_peak_at(0));
    return ps_record_peak_at(0);
}

/* The highest peak has so many blocks of such a size; up to a pair of zeros. */
static void check_peak(const size_t (*wanted)[2]) {
    const struct ps_record_peak *peak = highest_peak();
    for (; (*wanted)[0] != 0; wanted++) {
        CHECK_EQ(live_at(peak, (*wanted)[1]), (*wanted)[0]);
    }
}

TEST(sizes_have_numbers_as_classes_can_tell_them_apart) {
    static const struct {
        size_t bytes;
        size_t rounded;
    } cases[] = {{0, 8},   {1, 8},   {8, 8},     {9, 16},      {16, 16},      {17, 32},
                 {32, 32}, {33, 48}, {128, 128}, {4065, 4080}, {65536, 65536}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t number = ps_record_number_of(cases[i].bytes);
        CHECK_EQ(ps_record_bytes_of(number), cases[i].rounded);
        CHECK_CMP(number, <, PS_RECORD_SIZES);
    }
}

FRESH_TEST(a_peak_has_every_block_that_was_live_then) {
    static void *blocks[SIZES];
    record();
    GIVEN("a block of each of many sizes, and one above the classes");
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = ps_heap_alloc(i * 160 + 1);
    }
    void *large = ps_heap_alloc(MIB);
    WHEN("all are freed");
    for (size_t i = 0; i < SIZES; i++) {
        ps_heap_free(blocks[i]);
    }
    ps_heap_free(large);
    THEN("the peak is the moment before");
    const struct ps_record_peak *peak = highest_peak();
    for (size_t i = 0; i < SIZES; i++) {
        CHECK_EQ(live_at(peak, i * 160 + 1), 1);
    }
    CHECK_EQ(peak->large_count, 1);
    CHECK_EQ(peak->large_bytes, MIB);
    CHECK_EQ(ps_record_peak_requests(ps_record_number_of(161)), 1);
}

FRESH_TEST(a_large_block_that_shrinks_counts_with_what_it_keeps) {
    record();
    void *block = ps_heap_alloc(8 * MIB);
    CHECK_PTR_EQ(ps_block_resize(block, 6 * MIB), block);
    ps_heap_free(ps_heap_alloc(64 * MIB));
    const struct ps_record_peak *peak = highest_peak();
    CHECK_EQ(peak->large_count, 2);
    CHECK_EQ(peak->large_bytes, 70 * MIB);
}

#define WORK_BLOCKS 2000

static struct live_block work[WORK_BLOCKS];
static size_t work_numbers[WORK_BLOCKS]; /* what each counts as */
static uint64_t model[PS_RECORD_SIZES];
static uint64_t model_requests[PS_RECORD_SIZES];

static void model_resize(size_t i, size_t bytes) {
    const void *before = work[i].address;
    size_t number = ps_record_number_of(bytes);
    REQUIRE(live_resize(&work[i], bytes, i));
    bool is_counted_as_before = work[i].address == before && number < work_numbers[i];
    model_requests[number]++;
    model[work_numbers[i]]--;
    work_numbers[i] = is_counted_as_before ? work_numbers[i] : number;
    model[work_numbers[i]]++;
}

static void model_step(uint64_t *state) {
    size_t i = engine_random(state) % WORK_BLOCKS;
    size_t limit = engine_random(state) % 4 == 0 ? PS_CLASS_BYTES_LIMIT : 300;
    size_t bytes = engine_random(state) % (limit + 1);
    if (work[i].address == NULL) {
        live_start(&work[i], ps_heap_alloc(bytes), bytes, i);
        work_numbers[i] = ps_record_number_of(bytes);
        model[work_numbers[i]]++;
        model_requests[work_numbers[i]]++;
    } else if (engine_random(state) % 2 == 0) {
        model_resize(i,
                     engine_random(state) % 2 == 0 ? bytes + (bytes == 0) : work[i].bytes / 2 + 1);
    } else {
        model[work_numbers[i]]--;
        live_end(&work[i]);
    }
}

FRESH_TEST(random_work_matches_the_model) {
    uint64_t state = 4242;
    record();
    for (size_t i = 0; i < 200000 / FRESH_SLOWNESS; i++) {
        model_step(&state);
    }
    GIVEN("more live than ever before, of a size of its own");
    ps_heap_free(ps_heap_alloc(8 * MIB));
    const struct ps_record_peak *peak = highest_peak();
    for (size_t number = 1; number < PS_RECORD_SIZES; number++) {
        CHECK_EQ(live_at(peak, ps_record_bytes_of(number)), model[number]);
        CHECK_EQ(ps_record_peak_requests(number), model_requests[number]);
    }
}

static void *shared[BLOCKS];

static void allocate_shared(void *bytes) {
    for (size_t i = 0; i < BLOCKS; i++) {
        shared[i] = ps_heap_alloc(*(size_t *)bytes);
        REQUIRE(shared[i] != NULL);
    }
}

static void free_half(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i += 2) {
        ps_heap_free(shared[i]);
    }
}

/* Grows by so much that the next free takes a snapshot, from a thread that has nothing else. */
static void show_peak(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(64 * MIB));
}

FRESH_TEST(blocks_that_other_threads_free_count_once) {
    record();
    ps_heap_free(ps_heap_alloc(1));
    GIVEN("blocks of one thread, half of them freed by another, and both ended");
    size_t bytes = 200;
    worker_do_and_end(allocate_shared, &bytes);
    worker_do_and_end(free_half, NULL);
    show_peak(NULL);
    CHECK_EQ(live_at(highest_peak(), bytes), BLOCKS / 2);
}

static void make_peak(size_t bytes, size_t total) {
    size_t count = total / bytes;
    REQUIRE(count <= BLOCKS);
    for (size_t i = 0; i < count; i++) {
        shared[i] = ps_heap_alloc(bytes);
    }
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(shared[i]);
    }
}

FRESH_TEST(peaks_that_differ_are_kept_and_those_alike_are_one) {
    record();
    GIVEN("a high peak, and lower ones of the same and of another mix");
    make_peak(160, 4 * MIB);
    make_peak(160, 2 * MIB);
    make_peak(1000, 3 * MIB);
    make_peak(160, 3 * MIB);
    make_peak(1000, MIB);
    REQUIRE(ps_record_peak_finish() == 2);
    CHECK_EQ(live_at(ps_record_peak_at(0), 160), 4 * MIB / 160);
    CHECK_EQ(live_at(ps_record_peak_at(1), 160), 0);
    THEN("a lower peak is right to a sixteenth");
    CHECK_CMP(live_at(ps_record_peak_at(1), 1000), <=, 3 * MIB / 1000);
    CHECK_CMP(live_at(ps_record_peak_at(1), 1000), >=, 3 * MIB / 1000 * 15 / 16);
}

FRESH_TEST(no_more_than_eight_peaks_are_kept_the_highest) {
    record();
    for (size_t i = 0; i < 12; i++) {
        make_peak(1024 + i * 64, 4 * MIB + i * MIB / 4);
    }
    REQUIRE(ps_record_peak_finish() == PS_RECORD_PEAKS);
    for (size_t i = 0; i < PS_RECORD_PEAKS; i++) {
        CHECK_CMP(live_at(ps_record_peak_at(i), 1024 + (11 - i) * 64), >, 1000);
    }
}

FRESH_TEST(a_size_class_table_does_not_change_the_counts) {
    static const uint32_t table[] = {16, 64, 1024, 65536};
    static const size_t sizes[] = {1, 0, 8, 9, 16, 17, 63, 100, 1000, 5000, 30000, 65536};
    static void *blocks[sizeof sizes / sizeof sizes[0]];
    record();
    memcpy(engine_config.class_bytes, table, sizeof table);
    engine_config.class_count = 4;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        blocks[i] = ps_heap_alloc(sizes[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ps_heap_free(blocks[i]);
    }
    check_peak((const size_t[][2]){{3, 8},
                                   {2, 16},
                                   {1, 32},
                                   {1, 64},
                                   {1, 112},
                                   {1, 1008},
                                   {1, 5008},
                                   {1, 30000},
                                   {1, 65536},
                                   {0}});
}

FRESH_TEST(aligned_blocks_count_as_the_least_that_would_do) {
    record();
    void *blocks[] = {ps_block_alloc_aligned(20, 64), ps_block_alloc_aligned(100, 4096),
                      ps_block_alloc_aligned(5000, 1024), ps_block_alloc_aligned(10, 16),
                      ps_block_zalloc(300)};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        ps_heap_free(blocks[i]);
    }
    check_peak((const size_t[][2]){{1, 64}, {1, 4096}, {1, 5120}, {1, 16}, {1, 300}, {0}});
}

FRESH_TEST(nothing_is_recorded_by_default) {
    ps_heap_free(ps_heap_alloc(100));
    CHECK(!ps_record_is_on());
    CHECK(ps_front_thread.fast_limit != 0 && ps_record_shards == NULL);
}

/* ---- many threads at once ---- */

#define CROWD 8
#define CROWD_SLOTS 512

static uint64_t crowd_slots[CROWD_SLOTS]; /* addresses, taken and put by exchange */

/* Takes a block from a slot that any thread may have filled, frees it, puts another. */
static void *work_in_crowd(void *seed) {
    uint64_t state = (uintptr_t)seed * 7919 + 1;
    for (size_t i = 0; i < 60000 / FRESH_SLOWNESS; i++) {
        uint64_t *slot = &crowd_slots[engine_random(&state) % CROWD_SLOTS];
        char *block = ps_heap_alloc(engine_random(&state) % 2000);
        REQUIRE(block != NULL);
        block = (char *)__atomic_exchange_n(slot, (uintptr_t)block, __ATOMIC_ACQ_REL);
        if (block != NULL) {
            ps_heap_free(block);
        }
    }
    return NULL;
}

FRESH_TEST(nothing_is_lost_between_threads) {
    pthread_t threads[CROWD];
    record();
    ps_heap_free(ps_heap_alloc(1));
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < CROWD; i++) {
            void *seed = (void *)(round * CROWD + i);
            REQUIRE(pthread_create(&threads[i], NULL, work_in_crowd, seed) == 0);
        }
        for (size_t i = 0; i < CROWD; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    GIVEN("one block in each slot, and all threads ended");
    show_peak(NULL);
    const struct ps_record_peak *peak = highest_peak();
    uint64_t live = 0;
    for (size_t i = 0; i < peak->count; i++) {
        live += peak->entries[i].live_count;
    }
    CHECK_EQ(live, CROWD_SLOTS);
}

/* ---- live bytes, which the shards withhold in part ---- */

#define RISERS (2 * PS_RECORD_SHARDS)
#define RISE_BLOCKS 100
#define RISE_BYTES ((size_t)1008)

static void *allocate_some(void *blocks) {
    for (size_t i = 0; i < RISE_BLOCKS; i++) {
        ((void **)blocks)[i] = ps_heap_alloc(RISE_BYTES);
    }
    return NULL;
}

FRESH_TEST(a_peak_of_many_threads_is_right_to_a_thirty_second) {
    static void *blocks[RISERS][RISE_BLOCKS];
    pthread_t thread;
    record();
    ps_heap_free(ps_heap_alloc(1));
    for (size_t i = 0; i < RISERS; i++) {
        REQUIRE(pthread_create(&thread, NULL, allocate_some, blocks[i]) == 0);
        pthread_join(thread, NULL);
    }
    WHEN("another thread frees all of the blocks");
    for (size_t i = 0; i < RISERS * RISE_BLOCKS; i++) {
        ps_heap_free(blocks[i / RISE_BLOCKS][i % RISE_BLOCKS]);
    }
    uint64_t live = live_at(highest_peak(), RISE_BYTES);
    CHECK_CMP(live, <=, RISERS * RISE_BLOCKS);
    CHECK_CMP(live, >=, RISERS * RISE_BLOCKS * 31 / 32);
}

static void allocate_large(void *block) { *(void **)block = ps_heap_alloc(16 * MIB); }

FRESH_TEST(a_large_block_freed_by_another_thread_is_in_the_peak) {
    static struct worker worker;
    record();
    GIVEN("a thread that has freed at a low height");
    void *own[2] = {ps_heap_alloc(100000), ps_heap_alloc(100000)};
    ps_heap_free(own[0]);
    WHEN("another thread allocates one large block, which the first one frees");
    void *block = NULL;
    worker_start(&worker);
    worker_do(&worker, allocate_large, &block);
    ps_heap_free(block);
    worker_stop(&worker);
    THEN("the peak has it");
    CHECK_CMP(highest_peak()->large_bytes, >=, 16 * MIB);
}

static void count_in_child(void) {
    free_half(NULL);
    const struct ps_record_peak *peak = highest_peak();
    CHECK_EQ(peak->large_count, 0);
    CHECK_CMP(live_at(peak, 100), <=, BLOCKS);
    CHECK_CMP(live_at(peak, 100), >=, BLOCKS * 31 / 32);
}

FRESH_TEST(a_child_counts_the_blocks_of_its_parent_and_has_peaks_of_its_own) {
    record();
    size_t bytes = 100;
    allocate_shared(&bytes);
    show_peak(NULL); /* higher than those of the child */
    CHECK_EQ(fresh_status(count_in_child), 0);
}

UNIT_MAIN
