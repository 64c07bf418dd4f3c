// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* A traced process: the events of its calls, in order, within windows. */
#include "pools/engine/record/trace.h"
#include "tests/unit/engine.h"

#include "pools/engine/heap/mode.h"

#include <pthread.h>

#define TRACE_BYTES ((size_t)4 << 20)
#define CALLS 3000
#define THREADS 4

static PS_ALIGNED(4096) char memory[TRACE_BYTES];

static const struct ps_trace_header *header(void) { return (const void *)memory; }

static const struct ps_trace_event *event_at(uint64_t at) {
    REQUIRE(at < header()->x_event_count);
    return (const struct ps_trace_event *)(memory + header()->event_begin) + at;
}

static void trace(size_t bytes) {
    engine_config.record = true;
    engine_config.trace_memory = memory;
    engine_config.trace_bytes = bytes;
    ps_engine_start();
    CHECK(memcmp(&ps_mode.entry, &ps_mode_entries[PS_MODE_TRACED], sizeof ps_mode.entry) == 0);
}

/* The last event. */
static void check_last(const void *block, unsigned kind, size_t bytes) {
    const struct ps_trace_event *event = event_at(header()->x_event_count - 1);
    CHECK(event->address == (uintptr_t)block);
    CHECK_EQ(event->kind, kind);
    CHECK_EQ(event->bytes, bytes);
    CHECK_EQ(event->thread, 1);
}

FRESH_TEST(each_call_is_an_event) {
    static const size_t sizes[] = {0, 1, 100, 5000, 70000, 5 * MIB};
    trace(TRACE_BYTES);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before = header()->x_event_count;
        void *block = ps_heap_alloc(sizes[i]);
        check_last(block, PS_TRACE_MADE, sizes[i]);
        ps_heap_free(block);
        check_last(block, PS_TRACE_FREED, 0);
        CHECK_EQ(header()->x_event_count, before + 2);
    }
    void *aligned = ps_block_alloc_aligned(100, 512);
    check_last(aligned, PS_TRACE_MADE, 100);
    CHECK_EQ(event_at(header()->x_event_count - 1)->align_shift, 9);
    static const size_t zeroed_sizes[] = {200, 5 * MIB};
    for (size_t i = 0; i < 2; i++) {
        void *zeroed = ps_block_zalloc(zeroed_sizes[i]);
        check_last(zeroed, PS_TRACE_MADE | PS_TRACE_ZEROED, zeroed_sizes[i]);
    }
    check_last(ps_heap_alloc(10), PS_TRACE_MADE, 10);
}

FRESH_TEST(the_peak_is_that_of_the_first_window) {
    trace(PS_TRACE_BYTES_MIN);
    GIVEN("a block of 8 MiB that was in use, and freed");
    char *block = ps_heap_alloc(8 * MIB);
    memset(block, 1, 8 * MIB);
    ps_trace_note_peak();
    uint64_t peak = header()->x_peak_rss_bytes;
    CHECK_CMP(peak, >, 8 * MIB);
    ps_heap_free(block);
    WHEN("more memory is in use after the window has ended");
    while (header()->x_made_count < header()->window_ends[0]) {
        ps_heap_free(ps_heap_alloc(16));
    }
    uint64_t within = header()->x_peak_rss_bytes;
    memset(ps_heap_alloc(64 * MIB), 1, 64 * MIB);
    ps_trace_note_peak();
    CHECK_EQ(header()->x_peak_rss_bytes, within);
    CHECK_CMP(within, <, 64 * MIB);
}

FRESH_TEST(a_resize_is_a_free_and_an_allocation) {
    trace(TRACE_BYTES);
    void *block = ps_heap_alloc(100);
    void *stayed = ps_block_resize(block, 99);
    CHECK(stayed == block);
    check_last(stayed, PS_TRACE_MADE | PS_TRACE_RESIZED, 99);
    void *moved = ps_block_resize(stayed, 3000);
    CHECK(moved != stayed);
    check_last(stayed, PS_TRACE_FREED | PS_TRACE_RESIZED, 0);
    CHECK_EQ(header()->x_event_count, 5);
    ps_heap_free(moved);
    check_last(moved, PS_TRACE_FREED, 0);
}

FRESH_TEST(a_free_keeps_errno) {
    trace(TRACE_BYTES);
    void *block = ps_heap_alloc(100);
    errno = 77;
    ps_heap_free(block);
    CHECK_EQ(errno, 77);
}

FRESH_TEST(windows_hold_each_free_of_their_blocks) {
    trace(PS_TRACE_BYTES_MIN);
    GIVEN("more calls than there is room for, with one address in use again and again");
    uint64_t first = header()->window_ends[0];
    for (uint64_t i = 0; i < 40 * first; i++) {
        ps_heap_free(ps_heap_alloc(48));
    }
    CHECK_EQ(header()->x_made_count, 40 * first);
    CHECK_CMP(header()->x_event_count, >, 2 * first);
    CHECK_CMP(header()->x_event_count, <=, header()->event_limit);
    THEN("each allocation of a window is followed by its free");
    for (uint64_t i = 0; i < header()->x_event_count; i++) {
        CHECK_EQ(event_at(i)->kind, i % 2 == 0 ? PS_TRACE_MADE : PS_TRACE_FREED);
    }
}

static void *call_at_random(void *argument) {
    uint64_t random = (uintptr_t)argument * 77 + 1;
    void *blocks[16] = {NULL};
    for (size_t i = 0; i < CALLS; i++) {
        void **place = &blocks[engine_random(&random) % 16];
        if (*place != NULL) {
            ps_heap_free(*place);
        }
        *place = ps_heap_alloc(engine_random(&random) % 400);
    }
    for (size_t i = 0; i < 16; i++) {
        if (blocks[i] != NULL) {
            ps_heap_free(blocks[i]);
        }
    }
    return NULL;
}

FRESH_TEST(no_address_is_allocated_twice_without_a_free) {
    static uint64_t live[THREADS * 64];
    pthread_t threads[THREADS];
    size_t live_count = 0;
    trace(TRACE_BYTES);
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, call_at_random, (void *)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(header()->x_event_count, 2 * THREADS * CALLS);
    for (uint64_t i = 0; i < header()->x_event_count; i++) {
        const struct ps_trace_event *event = event_at(i);
        size_t at = 0;
        while (at < live_count && live[at] != event->address) {
            at++;
        }
        if ((event->kind & 3) == PS_TRACE_MADE) {
            REQUIRE(at == live_count && live_count < sizeof live / sizeof live[0]);
            live[live_count++] = event->address;
        } else {
            REQUIRE(at < live_count);
            live[at] = live[--live_count];
        }
    }
    CHECK_EQ(live_count, 0);
}

FRESH_TEST(without_memory_for_its_tables_there_is_no_trace) {
    engine_config.record = true;
    engine_config.trace_memory = memory;
    engine_config.trace_bytes = PS_TRACE_BYTES_MIN - 1;
    ps_engine_start();
    CHECK(!ps_trace_is_on());
    ps_heap_free(ps_heap_alloc(10));
    CHECK_EQ(header()->magic, 0);
}

UNIT_MAIN
