/* SPDX-License-Identifier: MIT */
/* Memory for calls before relocation: zeroed, aligned, never reused, known by its address. */
#include "pools/engine/heap/bootstrap.h"

#include "tests/unit/fresh.h"

#define BLOCKS 600

FRESH_TEST(bootstrap_blocks_are_zeroed_aligned_and_apart) {
    static unsigned char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t align = (size_t)1 << (unit_random() % 9);
        sizes[i] = unit_random() % 400;
        blocks[i] = ps_bootstrap_alloc(sizes[i], align);
        REQUIRE(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % (align > PS_BOOTSTRAP_ALIGN ? align : PS_BOOTSTRAP_ALIGN),
                 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            CHECK_EQ(blocks[i][j], 0);
        }
        memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(sizes[i] == 0 || ps_bootstrap_usable(blocks[i]) == sizes[i]);
        for (size_t j = 0; j < sizes[i]; j++) {
            CHECK_EQ(blocks[i][j], i % 255 + 1);
        }
    }
}

FRESH_TEST(a_large_bootstrap_block_gets_a_chunk_of_its_own) {
    char *block = ps_bootstrap_alloc(1 << 20, PS_BOOTSTRAP_ALIGN);
    REQUIRE(block != NULL);
    memset(block, 1, 1 << 20);
    CHECK_EQ(ps_bootstrap_usable(block), 1 << 20);
}

FRESH_TEST(resizing_copies_the_bytes_that_fit) {
    char *block = ps_bootstrap_alloc(100, PS_BOOTSTRAP_ALIGN);
    memset(block, 'x', 100);
    char *longer = ps_bootstrap_resize(block, 200);
    CHECK(memcmp(longer, block, 100) == 0 && longer[100] == 0);
    char *shorter = ps_bootstrap_resize(longer, 10);
    CHECK(memcmp(shorter, block, 10) == 0);
    CHECK_EQ(ps_bootstrap_usable(shorter), 10);
}

FRESH_TEST(other_addresses_are_not_bootstrap_blocks) {
    int local = 0;
    CHECK_EQ(ps_bootstrap_usable(&local), 0);
    CHECK_EQ(ps_bootstrap_usable(NULL), 0);
    (void)ps_bootstrap_alloc(100, PS_BOOTSTRAP_ALIGN);
    CHECK_EQ(ps_bootstrap_usable(&local), 0);
    CHECK_EQ(ps_bootstrap_usable((void *)UINTPTR_MAX), 0);
}

FRESH_TEST(too_much_is_refused_and_the_rest_goes_on) {
    CHECK_PTR_EQ(ps_bootstrap_alloc(SIZE_MAX, PS_BOOTSTRAP_ALIGN), NULL);
    CHECK_PTR_EQ(ps_bootstrap_alloc(SIZE_MAX - 100, PS_BOOTSTRAP_ALIGN), NULL);
    CHECK_PTR_EQ(ps_bootstrap_alloc((size_t)1 << 62, PS_BOOTSTRAP_ALIGN), NULL);
    CHECK(ps_bootstrap_alloc(10, PS_BOOTSTRAP_ALIGN) != NULL);
    size_t count = 0;
    while (count < 10000 && ps_bootstrap_alloc(60000, PS_BOOTSTRAP_ALIGN) != NULL) {
        count++;
    }
    CHECK_CMP(count, >, 20);
    CHECK_CMP(count, <, 10000); /* it is for start-up only and has an end */
}

TEST(it_is_over_once_the_program_has_been_relocated) { CHECK(ps_bootstrap_is_over()); }

UNIT_MAIN
