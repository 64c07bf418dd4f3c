/* SPDX-License-Identifier: MIT */
/*
 * The memory of slot maps: trim, reserve, sources that fail, moves; a trivial model; threads that
 * read, forks, PS_DEBUG.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/named_slots.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <pthread.h>

TEST(trim_returns_memory_and_stale_handles_stay_stale) {
    NEEDS_CHUNKS();
    enum { COUNT = 5000 };
    static uint64_t old[COUNT], young[COUNT];
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_slots_options options = options_of(&source);
    options.chunks.max_bytes = 4096;
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    for (size_t i = 0; i < COUNT; i++) {
        old[i] = insert_named(&slots, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (i != 1000 && i != 3000) {
            CHECK(ps_slots_remove(&slots, old[i]));
        }
    }
    size_t before = source.live_bytes;
    size_t returned = ps_slots_trim_to(&slots, 0);
    CHECK_EQ(before - returned, source.live_bytes);
    CHECK_EQ(source.live_count, 3); /* two chunks and the table */
    CHECK(ps_slots_check(&slots));
    CHECK_EQ(ps_slots_trim_to(&slots, 0), 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQ(ps_slots_get(&slots, old[i]) != NULL, i == 1000 || i == 3000);
        CHECK(i == 1000 || i == 3000 || !ps_slots_remove(&slots, old[i]));
    }
    struct ps_slots_cursor cursor = ps_slots_begin();
    CHECK_EQ(((struct entity *)ps_slots_next(&slots, &cursor))->name, 1000);
    CHECK_EQ(((struct entity *)ps_slots_next(&slots, &cursor))->name, 3000);
    CHECK(ps_slots_next(&slots, &cursor) == NULL);
    for (size_t i = 0; i < COUNT; i++) {
        young[i] = insert_named(&slots, COUNT + i);
        REQUIRE(young[i] != 0);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQ(ps_slots_get(&slots, old[i]) != NULL, i == 1000 || i == 3000);
        CHECK_EQ(name_behind(&slots, young[i]), COUNT + i);
    }
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(reserve_takes_memory_once) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_slots_options options = options_of(&source);
    options.chunks.max_bytes = 2048;
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    uint64_t handle = insert_named(&slots, 1);
    CHECK(ps_slots_remove(&slots, handle));
    ps_slots_trim_to(&slots, 0);
    CHECK(ps_slots_reserve(&slots, 1000));
    CHECK(ps_slots_check(&slots));
    size_t calls = source.calls;
    for (size_t i = 0; i < 1000; i++) {
        CHECK(insert_named(&slots, i) != 0);
    }
    CHECK_EQ(source.calls, calls);
    CHECK(ps_slots_get(&slots, handle) == NULL);
    CHECK(ps_slots_reserve(&slots, 5000));
    CHECK(ps_slots_trim_to(&slots, 0) > 0);
    CHECK(ps_slots_check(&slots));
    CHECK(insert_named(&slots, 1) != 0);
    ps_slots_destroy(&slots);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(trim_returns_a_partly_used_chunk_before_one_that_it_keeps) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_slots_options options = options_of(&source);
    options.chunks.max_bytes = 16384;
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    REQUIRE(ps_slots_reserve(&slots, 2 * 16384 / sizeof(struct entity)));
    uint64_t old = insert_named(&slots, 1);
    CHECK(ps_slots_remove(&slots, old));
    CHECK(ps_slots_trim_to(&slots, 16384) > 0);
    CHECK(ps_slots_check(&slots));
    for (size_t i = 0; i < 3000; i++) {
        uint64_t handle = insert_named(&slots, i);
        REQUIRE(handle != 0 && handle != old);
        CHECK_EQ(name_behind(&slots, handle), i);
    }
    CHECK(ps_slots_check(&slots));
    CHECK(ps_slots_get(&slots, old) == NULL);
    ps_slots_destroy(&slots);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_failing_source_leaves_the_map_as_it_was) {
    NEEDS_CHUNKS();
    for (size_t fail_at = 0; fail_at < 40; fail_at++) {
        struct counting_source source = new_source(fail_at);
        struct ps_slots_options options = options_of(&source);
        options.chunks.max_bytes = 1024;
        struct ps_slots slots;
        REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
        size_t count = 0;
        errno = 0;
        while (insert_named(&slots, count) != 0) {
            count++;
        }
        CHECK_EQ(errno, ENOMEM);
        CHECK_EQ(slots.live_count, count);
        CHECK_EQ(count == 0, fail_at < 2);
        CHECK(!ps_slots_reserve(&slots, 1000));
        CHECK(ps_slots_check(&slots));
        source.calls_max = SIZE_MAX;
        CHECK(insert_named(&slots, count) != 0);
        struct ps_slots_cursor cursor = ps_slots_begin();
        for (size_t i = 0; i <= count; i++) {
            const struct entity *entity = ps_slots_next(&slots, &cursor);
            REQUIRE(entity != NULL);
            CHECK_EQ(entity->name, i);
        }
        ps_slots_destroy(&slots);
        CHECK_EQ(source.live_bytes, 0);
    }
}

TEST(an_oom_handler_may_make_room) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(0);
    struct ps_slots_options options = options_of(&source);
    options.chunks.oom = give_up_at_second;
    options.chunks.oom_context = &source;
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, &options));
    CHECK_EQ(insert_named(&slots, 1), 0);
    CHECK(insert_named(&slots, 1) != 0);
    ps_slots_destroy(&slots);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_moved_map_keeps_its_handles) {
    struct ps_slots slots, moved;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    uint64_t handle = insert_named(&slots, 5);
    ps_slots_move(&moved, &slots);
    CHECK_EQ(slots.live_count, 0);
    CHECK(ps_slots_get(&slots, handle) == NULL);
    CHECK_EQ(name_behind(&moved, handle), 5);
    CHECK(insert_named(&slots, 6) != 0);
    CHECK(ps_slots_check(&slots) && ps_slots_check(&moved));
    ps_slots_destroy(&slots);
    CHECK_EQ(name_behind(&moved, handle), 5);
    ps_slots_destroy(&moved);
}

/* ---- against a model ---- */

struct model_entry {
    uint64_t handle; /* 0: removed */
    uint64_t stale;  /* the handle before */
    struct entity *place;
};

static void change_entry(struct ps_slots *slots, struct model_entry *entry, size_t at) {
    if (entry->handle == 0) {
        entry->handle = insert_named(slots, at);
        entry->place = ps_slots_get(slots, entry->handle);
        REQUIRE(entry->handle != 0);
        return;
    }
    struct entity *place = ps_slots_get(slots, entry->handle);
    CHECK_PTR_EQ(place, entry->place);
    CHECK_EQ(place->name, at);
    CHECK(ps_slots_remove(slots, entry->handle));
    entry->stale = entry->handle;
    entry->handle = 0;
}

static void check_all(const struct ps_slots *slots, const struct model_entry *entries,
                      size_t count) {
    size_t live = 0;
    for (size_t at = 0; at < count; at++) {
        live += entries[at].handle != 0;
        CHECK(ps_slots_get(slots, entries[at].stale) == NULL);
        if (entries[at].handle != 0) {
            CHECK_PTR_EQ(ps_slots_get(slots, entries[at].handle), entries[at].place);
            CHECK_EQ(entries[at].place->name, at);
        }
    }
    CHECK_EQ(slots->live_count, live);
    struct ps_slots_cursor cursor = ps_slots_begin();
    uint64_t before = 0;
    for (const struct entity *e; (e = ps_slots_next(slots, &cursor)) != NULL; live--) {
        uint64_t position = ps_slots_handle(e) & slots->position_mask;
        CHECK(before == 0 || position >= before);
        before = position + 1;
    }
    CHECK_EQ(live, 0);
    CHECK(ps_slots_check(slots));
}

static void run_against_model(const struct ps_slots_options *options, size_t steps) {
    enum { COUNT = 1500 };
    static struct model_entry entries[COUNT];
    memset(entries, 0, sizeof entries);
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, options));
    for (size_t step = 0; step < steps; step++) {
        size_t at = unit_random() % COUNT;
        change_entry(&slots, &entries[at], at);
        if (step % 5000 == 4999) {
            check_all(&slots, entries, COUNT);
            for (at = 0; step % 2 != 0 && at < COUNT; at++) { /* nearly all removed: chunks drain */
                if (entries[at].handle != 0 && at % 500 != 0) {
                    change_entry(&slots, &entries[at], at);
                }
            }
            ps_slots_trim_to(&slots, 0);
            check_all(&slots, entries, COUNT);
        }
    }
    ps_slots_reset(&slots);
    for (size_t at = 0; at < COUNT; at++) {
        CHECK(ps_slots_get(&slots, entries[at].handle) == NULL);
        CHECK(ps_slots_get(&slots, entries[at].stale) == NULL);
    }
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

TEST(random_calls_agree_with_a_model) {
    struct ps_slots_options wide = {.chunks = {.max_bytes = 8192}};
    struct ps_slots_options narrow = {.handle_bits = 32, .position_bits = 26};
    run_against_model(&wide, 60000 / FRESH_SLOWNESS);
    run_against_model(&narrow, 60000 / FRESH_SLOWNESS);
}

/* ---- threads, fork, debug modes ---- */

struct reading {
    const struct ps_slots *slots;
    const uint64_t *handles;
    size_t count;
};

static void *read_all(void *argument) {
    const struct reading *reading = argument;
    struct ps_slots_cursor cursor = ps_slots_begin();
    size_t visited = 0;
    while (ps_slots_next(reading->slots, &cursor) != NULL) {
        visited++;
    }
    CHECK_EQ(visited, reading->count);
    for (size_t i = 0; i < reading->count; i++) {
        CHECK_EQ(name_behind(reading->slots, reading->handles[i]), i + 1);
    }
    return NULL;
}

TEST(threads_may_read_at_once) {
    enum { COUNT = 2000, THREADS = 3 };
    static uint64_t handles[COUNT];
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        handles[i] = insert_named(&slots, i + 1);
    }
    struct reading reading = {&slots, handles, COUNT};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, read_all, &reading) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ps_slots_destroy(&slots);
}

TEST(a_map_works_in_the_child_of_a_fork) {
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    uint64_t handle = insert_named(&slots, 5);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        CHECK_EQ(name_behind(&slots, handle), 5);
        CHECK(ps_slots_remove(&slots, handle));
        CHECK(insert_named(&slots, 6) != 0);
        ps_slots_destroy(&slots);
    }
    unit_join_child(pid);
    CHECK_EQ(name_behind(&slots, handle), 5);
    ps_slots_destroy(&slots);
}

DEBUG_TEST(checked_maps_fill_removed_objects, "check") {
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, sizeof(struct entity), 0, NULL));
    uint64_t handle = insert_named(&slots, 5);
    unsigned char *place = ps_slots_get(&slots, handle);
    CHECK(ps_slots_remove(&slots, handle));
    CHECK(ps_slots_get(&slots, handle) == NULL);
    if (!ps_poison_is_on) {
        CHECK_EQ(place[8], 0xdd);
    }
    WHEN("another thread is inside of a change");
    slots.x_is_busy = 1;
    void *object = NULL;
    CHECK_ABORTS(ps_slots_insert(&slots, &object), "poolshim: two threads at once change");
    CHECK_ABORTS(ps_slots_remove(&slots, handle), "poolshim: two threads at once change");
    slots.x_is_busy = 0;
    ps_slots_destroy(&slots);
}

DEBUG_TEST(with_malloc_each_object_is_a_block, "malloc") {
    struct counting_source source = new_source(0);
    struct ps_slots_options options = options_of(&source);
    struct ps_slots slots;
    REQUIRE(ps_slots_init(&slots, 100, 64, &options));
    void *objects[100];
    for (size_t i = 0; i < 100; i++) {
        uint64_t handle = ps_slots_insert(&slots, &objects[i]);
        REQUIRE(handle != 0);
        CHECK_EQ((uintptr_t)objects[i] % 64, 0);
        CHECK_PTR_EQ(ps_slots_get(&slots, handle), objects[i]);
        CHECK_EQ(ps_slots_handle(objects[i]), handle);
    }
    CHECK_EQ(source.calls, 0);
    struct ps_slots_cursor cursor = ps_slots_begin();
    for (size_t i = 0; i < 100; i++) {
        CHECK_PTR_EQ(ps_slots_next(&slots, &cursor), objects[i]);
    }
    CHECK(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
