/* SPDX-License-Identifier: MIT */
/*
 * TLSF pools: every claim of tlsf.h, and random calls against a model that knows which bytes belong
 * to whom.
 */
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"

#include <errno.h>
#include <poolshim/tlsf.h>

static char room[1 << 20] __attribute__((aligned(4096)));

enum { SLOTS = 400 };

struct slot {
    unsigned char *payload;
    size_t bytes;
    unsigned char fill;
};

static void fill(struct slot *slot) {
    slot->fill = (unsigned char)(unit_random() | 1);
    memset(slot->payload, slot->fill, slot->bytes);
}

static bool is_filled(const struct slot *slot, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (slot->payload[i] != slot->fill) {
            return false;
        }
    }
    return true;
}

static size_t random_bytes(void) {
    size_t power = unit_random() % 14;
    return unit_random() % ((size_t)2 << power);
}

static void step(struct ps_tlsf *tlsf, struct slot *slot) {
    size_t bytes = random_bytes();
    if (slot->payload != NULL && unit_random() % 3 != 0) {
        CHECK(is_filled(slot, slot->bytes));
        ps_tlsf_free(tlsf, slot->payload);
        slot->payload = NULL;
    } else if (slot->payload != NULL) {
        unsigned char *moved = ps_tlsf_realloc(tlsf, slot->payload, bytes);
        if (moved != NULL) {
            slot->payload = moved;
            CHECK(is_filled(slot, bytes < slot->bytes ? bytes : slot->bytes));
            slot->bytes = bytes;
            fill(slot);
        }
    } else {
        size_t align = (size_t)1 << (unit_random() % 13);
        bool is_aligned = unit_random() % 4 == 0;
        slot->payload =
            is_aligned ? ps_tlsf_alloc_aligned(tlsf, bytes, align) : ps_tlsf_alloc(tlsf, bytes);
        if (slot->payload != NULL) {
            CHECK_EQ((uintptr_t)slot->payload % (is_aligned ? align : 16), 0);
            CHECK_CMP(ps_tlsf_usable_size(tlsf, slot->payload), >=, bytes);
            slot->bytes = bytes;
            fill(slot);
        }
    }
}

static void work(struct ps_tlsf *tlsf, int steps) {
    static struct slot slots[SLOTS];
    memset(slots, 0, sizeof slots);
    for (int i = 0; i < steps; i++) {
        step(tlsf, &slots[unit_random() % SLOTS]);
        if (i % 512 == 0) {
            const char *fault = ps_tlsf_check(tlsf);
            CHECK_STR_EQ(fault == NULL ? "sound" : fault, "sound");
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        CHECK(slots[i].payload == NULL || is_filled(&slots[i], slots[i].bytes));
        ps_tlsf_free(tlsf, slots[i].payload);
    }
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(random_calls_in_one_buffer_keep_all_contents) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    REQUIRE(tlsf != NULL);
    for (int round = 0; round < 4; round++) {
        work(tlsf, 20000);
        struct ps_tlsf_stats stats;
        ps_tlsf_stats(tlsf, &stats);
        CHECK_EQ(stats.used_count, 0);
        CHECK_EQ(stats.free_count, 1);
        CHECK_EQ(stats.free_bytes, stats.largest_free_bytes);
    }
}

TEST(random_calls_over_ranges_that_grow) {
    NEEDS_CHUNKS();
    struct ps_tlsf_options options = {.chunks = {.first_bytes = 8192, .max_bytes = 65536}};
    struct ps_tlsf *tlsf = ps_tlsf_create(&options);
    REQUIRE(tlsf != NULL);
    work(tlsf, 30000);
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    CHECK_CMP(stats.range_count, >, 3);
    CHECK_EQ(stats.free_count, stats.range_count);
    size_t chunk_bytes = stats.chunk_bytes;
    size_t given = ps_tlsf_trim_to(tlsf, 0);
    ps_tlsf_stats(tlsf, &stats);
    CHECK_EQ(stats.range_count, 1);
    CHECK_EQ(stats.chunk_bytes, chunk_bytes - given);
    work(tlsf, 3000);
    ps_tlsf_destroy(tlsf);
}

TEST(blocks_cost_eight_bytes) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *first = ps_tlsf_alloc(tlsf, 24);
    char *second = ps_tlsf_alloc(tlsf, 1000);
    char *third = ps_tlsf_alloc(tlsf, 1);
    CHECK_EQ(second - first, 32);
    CHECK_EQ(third - second, 1008);
    CHECK_EQ(ps_tlsf_usable_size(tlsf, second), 1000);
    CHECK_EQ(ps_tlsf_usable_size(tlsf, NULL), 0);
}

TEST(nothing_is_lost_to_the_classes_when_the_pool_is_one_block) {
    NEEDS_CHUNKS();
    GIVEN("a pool of one free block whose class does not begin with its size");
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room - 4096 - 48, NULL);
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    THEN("exactly that block can be had");
    void *all = ps_tlsf_alloc(tlsf, stats.largest_free_bytes);
    CHECK(all != NULL);
    errno = 0;
    CHECK(ps_tlsf_alloc(tlsf, 0) == NULL);
    CHECK_EQ(errno, ENOMEM);
    ps_tlsf_free(tlsf, all);
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(size_zero_is_a_block_and_null_is_nothing) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *one = ps_tlsf_alloc(tlsf, 0);
    char *other = ps_tlsf_alloc(tlsf, 0);
    CHECK(one != NULL && other != NULL && one != other);
    one = ps_tlsf_realloc(tlsf, one, 0);
    CHECK(one != NULL);
    ps_tlsf_free(tlsf, one);
    ps_tlsf_free(tlsf, other);
    errno = 7;
    ps_tlsf_free(tlsf, NULL);
    CHECK_EQ(errno, 7);
    void *fresh = ps_tlsf_realloc(tlsf, NULL, 10);
    CHECK(fresh != NULL);
    ps_tlsf_destroy(NULL);
}

TEST(sizes_that_overflow_are_memory_that_is_out) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    void *block = ps_tlsf_alloc(tlsf, 100);
    volatile size_t huge[] = {SIZE_MAX,     SIZE_MAX - 7,    SIZE_MAX - 8,    SIZE_MAX - 23,
                              SIZE_MAX / 2, (size_t)1 << 48, (size_t)1 << 47, (size_t)1 << 46,
                              sizeof room,  sizeof room - 1, sizeof room - 24};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        errno = 0;
        CHECK(ps_tlsf_alloc(tlsf, huge[i]) == NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK(ps_tlsf_alloc_aligned(tlsf, huge[i], 4096) == NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK(ps_tlsf_realloc(tlsf, block, huge[i]) == NULL);
        CHECK_EQ(errno, ENOMEM);
    }
    for (size_t shift = 20; shift < 64; shift++) {
        errno = 0;
        CHECK(ps_tlsf_alloc_aligned(tlsf, 8, (size_t)1 << shift) == NULL ||
              (uintptr_t)room >> shift != ((uintptr_t)room + sizeof room) >> shift);
    }
    CHECK_EQ(ps_tlsf_usable_size(tlsf, block), 104);
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(bad_alignments_are_refused) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    static const size_t bad[] = {0, 3, 24, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        CHECK(ps_tlsf_alloc_aligned(tlsf, 8, bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
}

TEST(memory_before_an_aligned_block_stays_free) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    struct ps_tlsf_stats before;
    ps_tlsf_stats(tlsf, &before);
    void *page = ps_tlsf_alloc_aligned(tlsf, 4096, 4096);
    struct ps_tlsf_stats after;
    ps_tlsf_stats(tlsf, &after);
    CHECK_CMP(after.used_bytes, <, 4096 + 32);
    ps_tlsf_free(tlsf, page);
    ps_tlsf_stats(tlsf, &after);
    CHECK_EQ(after.free_count, 1);
    CHECK_EQ(after.free_bytes, before.free_bytes);
    for (size_t align = 16; align <= 65536; align *= 2) {
        void *odd = ps_tlsf_alloc(tlsf, 16);
        void *block = ps_tlsf_alloc_aligned(tlsf, 1, align);
        CHECK(block != NULL);
        CHECK_EQ((uintptr_t)block % align, 0);
        CHECK(odd != NULL);
    }
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(aligned_realloc_has_its_alignment_in_place_and_moved) {
    struct ps_tlsf *tlsf = ps_tlsf_create(NULL);
    for (size_t align = 1; align <= 8192; align *= 2) {
        char *block = ps_tlsf_alloc(tlsf, 100);
        REQUIRE(block != NULL);
        memset(block, 7, 100);
        char *fence = ps_tlsf_alloc(tlsf, 16); /* no growth in place */
        static const size_t lengths[] = {100, 5000, 50, 20000, 1};
        size_t least = 100;
        for (size_t i = 0; i < 5; i++) {
            block = ps_tlsf_realloc_aligned(tlsf, block, lengths[i], align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block & (align - 1), 0);
            least = lengths[i] < least ? lengths[i] : least;
            CHECK(block[0] == 7 && block[least - 1] == 7);
        }
        char *same = ps_tlsf_realloc_aligned(tlsf, block, 1, align);
        CHECK(is_malloc_mode() || same == block);
        errno = 0;
        CHECK(ps_tlsf_realloc_aligned(tlsf, same, 10, align + 2 + (align == 2)) == NULL);
        CHECK_EQ(errno, EINVAL);
        ps_tlsf_free(tlsf, same);
        ps_tlsf_free(tlsf, fence);
    }
    void *fresh = ps_tlsf_realloc_aligned(tlsf, NULL, 10, 512);
    CHECK_EQ((uintptr_t)fresh & 511, 0);
    errno = 0;
    void *none = ps_tlsf_realloc_aligned(tlsf, fresh, SIZE_MAX, 512);
    CHECK(none == NULL && errno == ENOMEM);
    ps_tlsf_free(tlsf, fresh);
    ps_tlsf_destroy(tlsf);
}

TEST(realloc_works_in_place_where_it_can) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *block = ps_tlsf_alloc(tlsf, 100);
    memset(block, 'a', 100);
    CHECK_PTR_EQ(ps_tlsf_realloc(tlsf, block, 5000), block);
    CHECK_PTR_EQ(ps_tlsf_realloc(tlsf, block, 5016), block);
    CHECK_PTR_EQ(ps_tlsf_realloc(tlsf, block, 40), block);
    CHECK_EQ(block[39], 'a');
    CHECK(ps_tlsf_check(tlsf) == NULL);
    char *wall = ps_tlsf_alloc(tlsf, 10);
    CHECK_EQ(wall - block, 48);
    char *moved = ps_tlsf_realloc(tlsf, block, 300);
    CHECK(moved != block);
    CHECK_EQ(moved[39], 'a');
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(realloc_takes_the_whole_neighbour_when_the_rest_is_no_block) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *block = ps_tlsf_alloc(tlsf, 24);
    char *neighbour = ps_tlsf_alloc(tlsf, 24);
    char *wall = ps_tlsf_alloc(tlsf, 24);
    ps_tlsf_free(tlsf, neighbour);
    CHECK_PTR_EQ(ps_tlsf_realloc(tlsf, block, 40), block);
    CHECK_EQ(ps_tlsf_usable_size(tlsf, block), 56);
    CHECK(ps_tlsf_check(tlsf) == NULL);
    ps_tlsf_free(tlsf, wall);
    ps_tlsf_free(tlsf, block);
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(a_block_that_cannot_grow_is_as_it_was) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, 8192, NULL);
    char *block = ps_tlsf_alloc(tlsf, 2000);
    char *wall = ps_tlsf_alloc(tlsf, 100);
    memset(block, 'x', 2000);
    errno = 0;
    CHECK(ps_tlsf_realloc(tlsf, block, 6000) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(block[1999], 'x');
    CHECK_EQ(ps_tlsf_usable_size(tlsf, block), 2008);
    ps_tlsf_free(tlsf, wall);
}

TEST(ranges_come_and_go) {
    NEEDS_CHUNKS();
    struct ps_tlsf_options options = {.largest_bytes = 1 << 16};
    struct ps_tlsf *tlsf = ps_tlsf_init(room, 16384, &options);
    char *second = room + 20001; /* any alignment */
    CHECK(ps_tlsf_add(tlsf, second, 30000));
    CHECK(!ps_tlsf_add(tlsf, room + 100000, 100000));
    CHECK_EQ(errno, EINVAL);
    CHECK(!ps_tlsf_add(tlsf, room + 100000, 100));
    CHECK(!ps_tlsf_add(tlsf, room + 100000, 127));
    CHECK(!ps_tlsf_add(tlsf, NULL, 1000));
    CHECK(ps_tlsf_add(tlsf, room + 100000, 128));
    char *large = ps_tlsf_alloc(tlsf, 20000);
    CHECK(large > second && large < second + 10000);
    CHECK(ps_tlsf_owns(tlsf, large + 19999));
    CHECK(!ps_tlsf_owns(tlsf, room + 19000));
    errno = 0;
    CHECK(!ps_tlsf_remove(tlsf, second));
    CHECK_EQ(errno, EBUSY);
    CHECK(!ps_tlsf_remove(tlsf, second + 1));
    CHECK_EQ(errno, EINVAL);
    CHECK(!ps_tlsf_remove(tlsf, room));
    CHECK_EQ(errno, EINVAL);
    ps_tlsf_free(tlsf, large);
    CHECK(ps_tlsf_remove(tlsf, second));
    CHECK(ps_tlsf_alloc(tlsf, 20000) == NULL);
    CHECK(!ps_tlsf_owns(tlsf, large));
    memset(second, 0, 30000); /* the caller's again */
    CHECK(ps_tlsf_check(tlsf) == NULL);
    ps_tlsf_destroy(tlsf);
    memset(room, 0, 16384);
}

TEST(touching_ranges_stay_apart) {
    NEEDS_CHUNKS();
    struct ps_tlsf_options options = {.largest_bytes = 1 << 16};
    struct ps_tlsf *tlsf = ps_tlsf_init(room, 16384, &options);
    CHECK(ps_tlsf_add(tlsf, room + 16384, 16384));
    CHECK(ps_tlsf_add(tlsf, room + 32768, 16384));
    CHECK(ps_tlsf_alloc(tlsf, 17000) == NULL);
    CHECK(ps_tlsf_remove(tlsf, room + 16384));
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

TEST(small_buffers_hold_small_pools) {
    CHECK(ps_tlsf_init(NULL, 4096, NULL) == NULL);
    CHECK_EQ(errno, EINVAL);
    size_t pool_count = 0;
    for (size_t bytes = 0; bytes <= 4096; bytes += 7) {
        errno = 0;
        struct ps_tlsf *tlsf = ps_tlsf_init(room + bytes % 64, bytes, NULL);
        if (tlsf != NULL) {
            pool_count++;
            CHECK(ps_tlsf_check(tlsf) == NULL);
            CHECK(ps_tlsf_alloc(tlsf, 24) != NULL);
        } else {
            CHECK_EQ(errno, EINVAL);
            CHECK_CMP(bytes, <, 2048);
        }
    }
    CHECK_CMP(pool_count, >, 300);
}

TEST(reset_ends_all_blocks) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    static char more[8192];
    CHECK(ps_tlsf_add(tlsf, more, sizeof more));
    struct ps_tlsf_stats fresh;
    ps_tlsf_stats(tlsf, &fresh);
    for (int i = 0; i < 1000; i++) {
        CHECK(ps_tlsf_alloc(tlsf, (size_t)i) != NULL);
    }
    ps_tlsf_reset(tlsf);
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    CHECK(memcmp(&stats, &fresh, sizeof stats) == 0);
    CHECK(ps_tlsf_check(tlsf) == NULL);
}

struct seen {
    char *last;
    size_t used_count, free_count;
};

static void see(void *context, void *payload, size_t bytes, bool is_used) {
    struct seen *seen = context;
    CHECK((char *)payload > seen->last);
    seen->last = (char *)payload + bytes - 1;
    *(is_used ? &seen->used_count : &seen->free_count) += 1;
}

TEST(walk_sees_every_block_in_order) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    void *blocks[5];
    for (size_t i = 0; i < 5; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, 100 * i);
    }
    ps_tlsf_free(tlsf, blocks[1]);
    ps_tlsf_free(tlsf, blocks[3]);
    struct seen seen = {NULL, 0, 0};
    ps_tlsf_walk(tlsf, see, &seen);
    CHECK_EQ(seen.used_count, 3);
    CHECK_EQ(seen.free_count, 3);
}

UNIT_MAIN
