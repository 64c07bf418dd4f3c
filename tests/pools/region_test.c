/* SPDX-License-Identifier: MIT */
/*
 * Blocks of a region: allocating, freeing and resizing the newest across chunks whatever the
 * mixture of sizes and alignments, large blocks, texts, the memory of a region.
 */
#include "tests/unit/fresh.h"

#include "pools/common/poison.h"
#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <poolshim/region.h>
#include <stdalign.h>

static struct ps_region_stats stats_of(struct ps_region *region) {
    struct ps_region_stats stats;
    ps_region_stats(region, &stats);
    return stats;
}

DEBUG_TEST(with_debug_malloc_every_block_is_its_own_and_all_calls_work, "malloc") {
    struct ps_region *region = ps_region_create(NULL);
    char *first = ps_region_alloc(region, 10);
    char *second = ps_region_strdup(region, "second");
    CHECK_EQ(stats_of(region).used_bytes, 10 + 7);
    CHECK(!ps_region_free_last(region, first, 10));
    second = ps_region_realloc_aligned(region, second, 7, 70000, 1);
    CHECK_STR_EQ(second, "second");
    CHECK(!ps_region_free_last_aligned(region, second, 70000, 1)); /* it is a large one */
    CHECK(ps_region_free(region, second, 70000, 1));
    CHECK(ps_region_free_last(region, first, 10));
    CHECK_STR_EQ(ps_region_strcat(region, "a", "", "bc", "def", (char *)NULL), "abcdef");
    CHECK_STR_EQ(ps_region_strcat(region, NULL, "x", (char *)NULL), "");
    CHECK(ps_region_free_last_aligned(region, ps_region_strcat(region, "7", (char *)NULL), 2, 1));
    CHECK_STR_EQ(ps_region_printf(region, "%d-%s", 7, "x"), "7-x");
    CHECK_EQ((uintptr_t)ps_region_alloc_aligned(region, 3, 4096) % 4096, 0);
    ps_region_reset(region);
    CHECK_EQ(stats_of(region).used_bytes, 0);
    ps_region_destroy(region);
}

/* What frees answer is the same in each mode. */
static void free_in_and_out_of_order(void) {
    struct ps_region *region = ps_region_create(NULL);
    char *older = ps_region_alloc(region, 16);
    char *newer = ps_region_alloc(region, 16);
    char *large = ps_region_alloc(region, 100000);
    size_t used_bytes = stats_of(region).used_bytes;
    CHECK(!ps_region_free_large(region, older));
    CHECK(!ps_region_free_large(region, newer));
    CHECK(!ps_region_free(region, older, 16, 16));
    CHECK(!ps_region_free_last(region, older, 16));
    CHECK(!ps_region_free_last(region, large, 100000));
    CHECK_EQ(stats_of(region).used_bytes, used_bytes);
    memset(older, 1, 16);
    memset(newer, 1, 16);
    memset(large, 1, 100000);
    CHECK(ps_region_free_last(region, newer, 16));
    CHECK(ps_region_free(region, large, 100000, 16));
    CHECK(ps_region_free(region, older, 16, 16));
    ps_region_destroy(region);
}

TEST(frees_out_of_order_change_nothing) { free_in_and_out_of_order(); }
DEBUG_TEST(frees_out_of_order_change_nothing_on_malloc, "malloc") { free_in_and_out_of_order(); }

DEBUG_TEST(checked_regions_report_threads_and_foreign_pointers, "check") {
    struct ps_region *region = ps_region_create(NULL);
    static char foreign[32] __attribute__((aligned(16)));
    char *block = ps_region_alloc(region, 16);
    CHECK_ABORTS(ps_region_free_last(region, foreign, 16), "pointer that is none of the region's");
    CHECK_ABORTS(block = ps_region_realloc(region, foreign, 16, 32), "none of the region's");
    CHECK_ABORTS(ps_region_free_large(region, foreign), "none of the region's");
    CHECK_ABORTS(ps_region_free(region, foreign, 16, 16), "none of the region's");
    struct ps_region_cleanup *cleanup = ps_region_on_destroy(region, free, NULL);
    ps_region_cancel(region, cleanup);
    CHECK_ABORTS(ps_region_cancel(region, cleanup), "cleanup that is not registered");
    char *small = ps_region_alloc_aligned(region, 24, 8);
    char *next = ps_region_strdup(region, "7 bytes");
    CHECK_ABORTS(ps_region_free_last(region, small, 24), "with another alignment than its own");
    CHECK(ps_region_free_last(region, next, 8));
    CHECK(block != NULL);
    ps_region_destroy(region);
}

TEST(blocks_are_aligned_apart_and_of_any_size) {
    NEEDS_CHUNKS();
    struct ps_region *region = ps_region_create(NULL);
    static const size_t sizes[] = {0, 1, 15, 16, 17, 24, 100, 1000, 4096, 100000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t align = 1; align <= 1 << 20; align *= 2) {
            char *block = ps_region_alloc_aligned(region, sizes[i], align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block % align, 0);
            CHECK(ps_region_owns(region, block));
            memset(block, 1, sizes[i]);
        }
    }
    char *one = ps_region_alloc(region, 0);
    char *other = ps_region_alloc(region, 0);
    CHECK(one != other);
    CHECK_EQ((uintptr_t)one % 16, 0);
    CHECK(ps_region_free_last(region, other, 0));
    CHECK(ps_region_free_last(region, one, 0));
    char *text = ps_region_alloc_unaligned(region, 3);
    char *next = ps_region_alloc_unaligned(region, 3);
    CHECK(next == text + 3 || has_canaries());
    CHECK_EQ((uintptr_t)ps_region_alloc(region, 8) % 16, 0);
    ps_region_destroy(region);
}

TEST(zalloc_zeroes_used_memory) {
    struct ps_region *region = ps_region_create(NULL);
    for (int round = 0; round < 2; round++) {
        for (size_t bytes = 1; bytes < 3000; bytes += 97) {
            unsigned char *block = ps_region_zalloc(region, bytes);
            for (size_t i = 0; i < bytes; i++) {
                CHECK_EQ(block[i], 0);
            }
            memset(block, 0xff, bytes);
        }
        ps_region_reset(region);
    }
    ps_region_destroy(region);
}

TEST(bad_sizes_and_alignments_are_refused) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    struct ps_region *region = ps_region_create(&options);
    struct ps_region *none = region;
    volatile size_t all = SIZE_MAX; /* the compiler must not see it coming */
    for (size_t less = 0; less < 70; less++) {
        errno = 0;
        CHECK(ps_region_alloc(region, all - less) == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK(ps_region_alloc_aligned(region, all / 2 - less, 64) == NULL);
        CHECK(ps_region_alloc_unaligned(region, all - less) == NULL);
    }
    CHECK(ps_region_alloc_array(region, all / 2, 3, 8) == NULL);
    void *block = ps_region_alloc(region, 16);
    CHECK(ps_region_realloc(region, block, 16, all) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(ps_region_create_for(all, &options, &none) == NULL);
    CHECK(none == NULL);
    CHECK(ps_region_create_for(all / 2 - 600, &options, &none) == NULL);
    CHECK_EQ(source.live_count, 1);
    static const size_t aligns[] = {0, 3, 12, 48, SIZE_MAX, (size_t)1 << 31};
    for (size_t i = 0; i < sizeof aligns / sizeof aligns[0]; i++) {
        errno = 0;
        CHECK(ps_region_alloc_aligned(region, 8, aligns[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    CHECK(!ps_region_free_last(region, NULL, 8));
    CHECK(!ps_region_free_large(region, NULL));
    ps_region_destroy(region);
    ps_region_destroy(NULL);
}

/* Trap: sizes that are no multiple of 8, and gaps, must not stop the unwinding. */
TEST(the_newest_block_is_freed_whatever_its_size_and_alignment) {
    NEEDS_CHUNKS();
    struct ps_region *region = ps_region_create(NULL);
    enum { COUNT = 20000 };
    static char *blocks[COUNT];
    static size_t sizes[COUNT];
    static size_t aligns[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = unit_random() % 300;
        aligns[i] = (size_t)1 << unit_random() % 9;
        blocks[i] = ps_region_alloc_aligned(region, sizes[i], aligns[i]);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], i, sizes[i]);
    }
    CHECK_CMP(stats_of(region).chunk_count, >, 4);
    for (int i = COUNT; i-- > 0;) {
        /* Of several chunks, two have a newest block that can be freed. */
        if (i > 0 && stats_of(region).chunk_count == 1) {
            CHECK(!ps_region_free_last_aligned(region, blocks[i - 1], sizes[i - 1], aligns[i - 1]));
        }
        CHECK(ps_region_free_last_aligned(region, blocks[i], sizes[i], aligns[i]));
    }
    CHECK_EQ(stats_of(region).used_bytes, 0);
    CHECK_EQ(stats_of(region).chunk_count, 1);
    ps_region_destroy(region);
}

struct model_block {
    unsigned char *at;
    size_t bytes;
    size_t align;
    unsigned char fill;
    bool is_large;
};

static struct model_block model[512];
static size_t model_count;

static void model_check(const struct model_block *block) {
    for (size_t i = 0; i < block->bytes; i++) {
        if (block->at[i] != block->fill) {
            CHECK_EQ(block->at[i], block->fill);
            return;
        }
    }
}

static size_t random_bytes(void) {
    static const size_t most[] = {4, 40, 300, 300, 2000, 9000, 60000};
    return unit_random() % most[unit_random() % 7];
}

static void model_alloc(struct ps_region *region) {
    size_t bytes = random_bytes();
    size_t align = (size_t)1 << unit_random() % 8;
    size_t large_count = stats_of(region).large_count;
    unsigned char *at = ps_region_alloc_aligned(region, bytes, align);
    REQUIRE(at != NULL);
    CHECK_EQ((uintptr_t)at % align, 0);
    bool is_large = stats_of(region).large_count > large_count;
    struct model_block block = {at, bytes, align, (unsigned char)unit_random(), is_large};
    memset(at, block.fill, bytes);
    model[model_count++] = block;
}

static size_t model_newest(void) {
    size_t i = model_count;
    while (i > 0 && model[i - 1].is_large) {
        i--;
    }
    return i - 1;
}

static void model_remove(size_t index) {
    memmove(&model[index], &model[index + 1], (--model_count - index) * sizeof model[0]);
}

static void model_free(struct ps_region *region, size_t index) {
    struct model_block block = model[index];
    model_check(&block);
    CHECK_EQ(ps_region_free_large(region, block.at), block.is_large);
    if (!block.is_large) {
        CHECK(ps_region_free_last_aligned(region, block.at, block.bytes, block.align));
    }
    model_remove(index);
}

static void model_realloc(struct ps_region *region, size_t index) {
    struct model_block block = model[index];
    size_t bytes = random_bytes();
    size_t kept = bytes < block.bytes ? bytes : block.bytes;
    size_t large_count = stats_of(region).large_count - block.is_large;
    block.at = ps_region_realloc_aligned(region, block.at, block.bytes, bytes, block.align);
    REQUIRE(block.at != NULL);
    block.bytes = kept;
    model_check(&block);
    block.bytes = bytes;
    memset(block.at, block.fill, bytes);
    block.is_large = stats_of(region).large_count > large_count;
    if (block.at == model[index].at) {
        model[index] = block;
    } else {
        model_remove(index);
        model[model_count++] = block;
    }
}

/* As long as only the newest and large ones are freed and resized, nothing is ever lost. */
TEST(random_calls_agree_with_a_trivial_model) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    for (int round = 0; round < 40; round++) {
        options.chunks.first_bytes = (size_t)1024 << round % 4;
        options.chunks.max_bytes = (size_t)4096 << round % 5;
        options.retain_bytes = (size_t)1 << round % 20;
        struct ps_region *region = ps_region_create(&options);
        for (int call = 0; call < 1500 / FRESH_SLOWNESS; call++) {
            unsigned kind = (unsigned)(unit_random() % 8);
            size_t newest = model_newest();
            size_t any = model_count > 0 ? unit_random() % model_count : 0;
            if (model_count == 0 || (kind < 4 && model_count < 500)) {
                model_alloc(region);
            } else if (model[any].is_large) {
                (kind == 4 ? model_free : model_realloc)(region, any);
            } else if (newest < model_count) {
                (kind < 7 ? model_free : model_realloc)(region, newest);
            }
        }
        while (model_count > 0) {
            model_free(region, model_count - 1);
        }
        CHECK_EQ(stats_of(region).used_bytes, 0);
        CHECK_EQ(stats_of(region).chunk_count, 1);
        CHECK_CMP(stats_of(region).waiting_bytes, <=, options.retain_bytes);
        ps_region_destroy(region);
        CHECK_EQ(source.live_count, 0);
        CHECK_EQ(source.live_bytes, 0);
    }
}

TEST(the_newest_block_grows_and_shrinks_in_place) {
    NEEDS_CHUNKS();
    struct ps_region *region = ps_region_create(NULL);
    char *block = ps_region_alloc(region, 10);
    memcpy(block, "0123456789", 10);
    CHECK_PTR_EQ(ps_region_realloc(region, block, 10, 1000), block);
    CHECK_PTR_EQ(ps_region_realloc(region, block, 1000, 20), block);
    CHECK_EQ(stats_of(region).used_bytes, 32 + canary_bytes());
    CHECK_PTR_EQ(ps_region_realloc(region, block, 20, 0), block);
    CHECK_EQ(stats_of(region).used_bytes, has_canaries() ? 64 : 16);
    CHECK_PTR_EQ(ps_region_realloc(region, block, 0, 10), block);
    memcpy(block, "0123456789", 10);
    char *newer = ps_region_alloc(region, 16);
    WHEN("a block that is not the newest grows, it moves; when it shrinks, it does not");
    char *moved = ps_region_realloc(region, block, 10, 50);
    CHECK(moved > newer);
    CHECK(memcmp(moved, "0123456789", 10) == 0);
    CHECK_PTR_EQ(ps_region_realloc(region, newer, 16, 4), newer);
    WHEN("the contents are not needed");
    char *fresh = ps_region_realloc_nocopy(region, newer, 4, 4000000);
    CHECK(fresh != newer);
    CHECK(ps_region_free_large(region, fresh));
    CHECK(ps_region_realloc(region, NULL, 0, 5) != NULL);
    ps_region_destroy(region);
}

TEST(blocks_shrunk_before_they_were_the_newest_are_freed_as_they_are_now) {
    struct ps_region *region = ps_region_create(NULL);
    char *block = ps_region_alloc(region, 24);
    char *newer = ps_region_alloc(region, 8);
    CHECK_PTR_EQ(ps_region_realloc(region, block, 24, 20), block);
    CHECK(ps_region_free_last(region, newer, 8));
    CHECK(ps_region_free_last(region, block, 20));
    CHECK_EQ(stats_of(region).used_bytes, 0);
    ps_region_destroy(region);
}

/* The newest block is known though its alignment is told wrong, and never grows beyond its chunk.
 */
TEST(blocks_of_less_alignment_are_freed_and_resized_as_if_it_were_16) {
    struct ps_region_options options = {.chunks = {.first_bytes = 4096, .max_bytes = 4096}};
    struct ps_region *region = ps_region_create(&options);
    void *first = ps_region_alloc_aligned(region, 24, 8);
    void *second = ps_region_alloc_aligned(region, 24, 8);
    CHECK(!ps_region_free_last(region, first, 24));
    CHECK(ps_region_free_last(region, second, 24));
    CHECK(ps_region_free_last(region, first, 24));
    CHECK_EQ(stats_of(region).used_bytes, 0);
    for (size_t bytes = 1; bytes < 100; bytes++) {
        CHECK(ps_region_alloc_unaligned(region, bytes) != NULL);
        char *text = ps_region_strdup(region, "some text");
        for (size_t length = 10; length < 8000; length += bytes) {
            text = ps_region_realloc(region, text, length, length + bytes);
            CHECK_STR_EQ(text, "some text");
            memset(text + 10, 1, length + bytes - 10);
        }
        ps_region_reset(region);
    }
    ps_region_destroy(region);
}

TEST(an_array_that_grows_leaves_nothing_behind) {
    uint32_t length = ps_poison_is_memcheck ? 30000 : 100000; /* there each copy is slow */
    struct ps_region *region = ps_region_create(NULL);
    uint32_t *array = NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; i < length; i++) {
        array = ps_region_realloc(region, array, bytes, bytes + sizeof *array);
        bytes += sizeof *array;
        array[i] = i;
    }
    for (uint32_t i = 0; i < length; i++) {
        CHECK_EQ(array[i], i);
    }
    CHECK_CMP(stats_of(region).used_bytes, <, bytes + bytes / 2);
    ps_region_destroy(region);
}

TEST(large_blocks_are_freed_in_any_order) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    struct ps_region *region = ps_region_create(&options);
    enum { COUNT = 1000 };
    static void *blocks[COUNT];
    void *small = ps_region_alloc(region, 16);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = ps_region_alloc_aligned(region, 9000, i % 3 == 0 ? 4096 : 16);
    }
    CHECK_EQ(stats_of(region).large_count, COUNT);
    CHECK(!ps_region_free_large(region, small));
    for (int i = 0; i < COUNT; i++) {
        int index = i * 7 % COUNT;
        CHECK(ps_region_free_large(region, blocks[index]));
    }
    CHECK_EQ(source.live_count, 1);
    CHECK_EQ(stats_of(region).large_count, 0);
    ps_region_destroy(region);
    CHECK_EQ(source.live_count, 0);
}

/* Trap: a request beyond the next chunk must neither fail nor overrun. */
TEST(a_request_beyond_the_longest_chunk_gets_its_own) {
    struct ps_region_options options = {.chunks = {.first_bytes = 1, .max_bytes = 1}};
    struct ps_region *region = ps_region_create(&options);
    char *block = ps_region_alloc(region, 100000);
    REQUIRE(block != NULL);
    memset(block, 1, 100000);
    CHECK_EQ(stats_of(region).large_count, 1);
    ps_region_destroy(region);
}

TEST(the_tail_of_the_chunk_before_is_used_once_more) {
    NEEDS_CHUNKS();
    struct ps_region_options options = {.chunks = {.first_bytes = 4096, .max_bytes = 4096}};
    struct ps_region *region = ps_region_create(&options);
    char *first = ps_region_alloc(region, 2000);
    char *second = ps_region_alloc(region, 1900); /* of a new chunk */
    CHECK(ps_region_alloc(region, 1900) != NULL);
    char *third = ps_region_alloc(region, 1000); /* fits into the first one only */
    CHECK_EQ(stats_of(region).chunk_count, 2);
    CHECK_PTR_EQ(third, first + 2000 + canary_bytes());
    CHECK(!ps_region_free_last(region, second, 1900));
    CHECK(ps_region_free_last(region, third, 1000));
    ps_region_destroy(region);
}

TEST(texts_are_copied_and_formatted) {
    struct ps_region *region = ps_region_create(NULL);
    CHECK_STR_EQ(ps_region_strdup(region, ""), "");
    CHECK_STR_EQ(ps_region_strdup(region, "text"), "text");
    CHECK_STR_EQ(ps_region_strndup(region, "text", 2), "te");
    CHECK_STR_EQ(ps_region_strndup(region, "text", SIZE_MAX), "text");
    CHECK(memcmp(ps_region_memdup(region, "a\0b", 3), "a\0b", 3) == 0);
    CHECK(ps_region_memdup(region, NULL, 0) != NULL);
    char expected[12000];
    for (int length = 0; length < (int)sizeof expected - 1; length += 61) {
        memset(expected, 'x', (size_t)length);
        expected[length] = '\0';
        char *text = ps_region_printf(region, "%s%.*s", "", length, expected);
        CHECK_STR_EQ(text, expected);
    }
    char *text = ps_region_printf(region, "%d", 12345);
    CHECK(ps_region_free_last_aligned(region, text, 6, 1));
    ps_region_destroy(region);
}

UNIT_MAIN
