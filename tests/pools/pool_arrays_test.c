/* SPDX-License-Identifier: MIT */
/*
 * Arrays of a usual pool that are replaced at random, as a container grows, the new one first:
 * memory is near that of an ordered pool, contents are intact, nothing is allocated twice. With
 * arguments ("usual" or "ordered", a number of operations) prints the time of each and the pool's
 * memory afterwards.
 */
#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <poolshim/pool.h>
#include <time.h>

enum { SLOTS = 2048, LONGEST = 16 };

static struct slot {
    uint64_t *objects;
    size_t count;
} slots[SLOTS];

static uint64_t state;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void begin(struct ps_pool *pool, const struct ps_pool_options *options) {
    state = 0x9e3779b97f4a7c15u;
    memset(slots, 0, sizeof slots);
    REQUIRE(ps_pool_init(pool, sizeof(uint64_t), 0, options));
}

static size_t held_bytes(struct ps_pool *pool) {
    struct ps_pool_stats stats;
    ps_pool_stats(pool, &stats);
    return stats.total_bytes;
}

static void replace(struct ps_pool *pool, size_t operations, size_t longest) {
    for (size_t i = 0; i < operations; i++) {
        struct slot *slot = &slots[draw() % SLOTS];
        struct slot old = *slot;
        slot->count = 1 + draw() % longest;
        slot->objects = ps_pool_alloc_n(pool, slot->count);
        slot->objects[0] = i;
        ps_pool_free_n(pool, old.objects, old.count);
    }
}

static size_t held_after(bool is_ordered, size_t operations) {
    struct ps_pool_options options = {.is_ordered = is_ordered};
    struct ps_pool pool;
    begin(&pool, &options);
    replace(&pool, operations, LONGEST);
    size_t bytes = held_bytes(&pool);
    ps_pool_destroy(&pool);
    return bytes;
}

TEST(arrays_of_a_usual_pool_take_at_most_twice_what_an_ordered_one_takes) {
    NEEDS_CHUNKS();
    size_t ordered = held_after(true, 100000);
    for (size_t operations = 1000; operations <= 1000000; operations *= 10) {
        CHECK_CMP(held_after(false, operations), <=, 2 * ordered);
    }
}

TEST(lengths_that_change_from_phase_to_phase_share_memory) {
    NEEDS_CHUNKS();
    struct ps_pool pool;
    begin(&pool, NULL);
    size_t first = 0;
    for (size_t longest = 2; longest <= 1024; longest *= 2) { /* less live from phase to phase */
        size_t count = 32768 / longest;
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < count; i++) {
                struct slot *slot = &slots[i % SLOTS];
                ps_pool_free_n(&pool, slot->objects, slot->count);
                slot->count = longest - draw() % (longest / 2);
                slot->objects = ps_pool_alloc_n(&pool, slot->count);
                REQUIRE(slot->objects != NULL);
            }
        }
        for (size_t i = 0; i < SLOTS; i++) {
            ps_pool_free_n(&pool, slots[i].objects, slots[i].count);
            slots[i].objects = NULL;
        }
        first = first != 0 ? first : held_bytes(&pool);
    }
    CHECK_CMP(held_bytes(&pool), <=, 16 * first);
    CHECK_CMP(held_bytes(&pool), <=, (size_t)1 << 20);
    CHECK_EQ(ps_pool_trim_to(&pool, 0) > 0, 1);
    CHECK_EQ(held_bytes(&pool), 0);
    ps_pool_destroy(&pool);
}

static void check_and_fill(struct slot *slot, uint64_t with) {
    for (size_t i = 1; i < slot->count; i++) {
        CHECK_EQ(slot->objects[i], slot->objects[0]);
    }
    for (size_t i = 0; i < slot->count; i++) {
        slot->objects[i] = with;
    }
}

TEST(arrays_and_objects_keep_their_contents) {
    struct ps_pool pool;
    begin(&pool, NULL);
    size_t live = 0;
    for (uint64_t i = 1; i < 200000; i++) {
        struct slot *slot = &slots[draw() % SLOTS];
        check_and_fill(slot, 0);
        live -= slot->count;
        ps_pool_free_n(&pool, slot->objects, slot->count);
        size_t most = draw() % 8 == 0 ? 5000 : draw() % 2 == 0 ? 1 : 40;
        *slot = (struct slot){NULL, draw() % 10 == 0 ? 0 : 1 + draw() % most};
        if (slot->count != 0) {
            slot->objects = ps_pool_alloc_n(&pool, slot->count);
            REQUIRE(slot->objects != NULL);
        }
        live += slot->count;
        for (size_t at = 0; at < slot->count; at++) {
            slot->objects[at] = i;
        }
        if (i % 50000 == 0) {
            struct ps_pool_stats stats;
            ps_pool_stats(&pool, &stats);
            CHECK_EQ(stats.used_count, live);
            ps_pool_trim_to(&pool, 0);
            ps_pool_stats(&pool, &stats);
            CHECK_EQ(stats.used_count, live);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        check_and_fill(&slots[i], 0);
        ps_pool_free_n(&pool, slots[i].objects, slots[i].count);
    }
    ps_pool_trim_to(&pool, 0);
    NEEDS_CHUNKS();
    CHECK_EQ(held_bytes(&pool), 0);
    ps_pool_destroy(&pool);
}

TEST(a_full_pool_finds_arrays_among_what_was_freed) {
    NEEDS_CHUNKS();
    struct ps_pool_options options = {.max_items = 64};
    struct ps_pool pool;
    begin(&pool, &options);
    uint64_t *arrays[16];
    for (int i = 0; i < 16; i++) {
        REQUIRE((arrays[i] = ps_pool_alloc_n(&pool, 4)) != NULL);
    }
    CHECK(ps_pool_alloc_n(&pool, 2) == NULL);
    for (int i = 15; i >= 0; i -= 2) {
        ps_pool_free_n(&pool, arrays[i], 4);
        ps_pool_free_n(&pool, arrays[i - 1], 4);
    }
    uint64_t *all = ps_pool_alloc_n(&pool, 64);
    CHECK(all != NULL);
    ps_pool_free_n(&pool, all, 64);
    WHEN("single objects are wanted");
    for (int i = 0; i < 64; i++) {
        CHECK(ps_pool_try_alloc(&pool) != NULL);
    }
    CHECK(ps_pool_try_alloc(&pool) == NULL);
    ps_pool_destroy(&pool);
}

TEST(objects_freed_one_by_one_become_arrays) {
    NEEDS_CHUNKS();
    struct ps_pool pool;
    static void *objects[100000];
    begin(&pool, NULL);
    for (size_t i = 0; i < 100000; i++) {
        objects[i] = ps_pool_alloc(&pool);
    }
    size_t held = held_bytes(&pool);
    for (size_t i = 0; i < 100000; i++) {
        ps_pool_free(&pool, objects[i * 7919 % 100000]);
    }
    for (size_t i = 0; i < 990; i++) {
        CHECK(ps_pool_alloc_n(&pool, 100) != NULL);
    }
    CHECK_CMP(held_bytes(&pool), <=, held + 4096);
    ps_pool_destroy(&pool);
}

static int measure(const char *kind, size_t operations) {
    struct ps_pool_options options = {.is_ordered = strcmp(kind, "ordered") == 0};
    struct ps_pool pool;
    struct timespec from, to;
    begin(&pool, &options);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    replace(&pool, operations, LONGEST);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    printf("%s: %.1f ns an operation, %zu KiB\n", kind, ns / (double)operations,
           held_bytes(&pool) >> 10);
    ps_pool_destroy(&pool);
    return 0;
}

int main(int argc, char **argv) {
    return argc == 3 ? measure(argv[1], strtoull(argv[2], NULL, 0)) : unit_main(argc, argv);
}
