// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Memory for the engine's own structures: zeroed, apart, accounted, and released only together. */
#include "pools/engine/page/metadata.h"

#include "pools/engine/base/compiler.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#define PIECES 3000
#define PAGE_BYTES 4096 /* a piece as long begins at a page: most heaps use one page */

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

FRESH_TEST(pieces_are_zeroed_on_lines_of_their_own_and_never_overlap) {
    static unsigned char *pieces[PIECES];
    static size_t lengths[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        lengths[i] = unit_random() % 50 == 0 ? 1 + unit_random() % 65536 : 1 + unit_random() % 300;
        pieces[i] = ps_metadata_take(lengths[i]);
        REQUIRE(pieces[i] != NULL);
        CHECK_EQ((uintptr_t)pieces[i] % (lengths[i] < PAGE_BYTES ? PS_CACHE_LINE : PAGE_BYTES), 0);
        CHECK(is_zero(pieces[i], lengths[i]));
        memset(pieces[i], (int)(i % 255) + 1, lengths[i]);
    }
    for (size_t i = 0; i < PIECES; i++) {
        size_t same = 0;
        while (same < lengths[i] && pieces[i][same] == i % 255 + 1) {
            same++;
        }
        CHECK_EQ(same, lengths[i]);
    }
    CHECK_EQ(ps_metadata_x_bytes, fake_os_mapped_bytes());
}

FRESH_TEST(a_map_is_zeroed_and_counted) {
    unsigned char *map = ps_metadata_map((size_t)2 << 20);
    REQUIRE(map != NULL);
    CHECK(is_zero(map, (size_t)2 << 20));
    CHECK_EQ(ps_metadata_x_bytes, 2 << 20);
    CHECK_EQ(fake_os_mapped_bytes(), 2 << 20);
}

FRESH_TEST(exhaustion_gives_null_and_changes_nothing) {
    GIVEN("a system that refuses memory");
    fake_os_refuse(FAKE_OS_ALL);
    CHECK_PTR_EQ(ps_metadata_take(1), NULL);
    CHECK_PTR_EQ(ps_metadata_map(65536), NULL);
    CHECK_EQ(ps_metadata_x_bytes, 0);
    WHEN("it gives some again");
    fake_os_refuse(0);
    unsigned char *piece = ps_metadata_take(4096);
    REQUIRE(piece != NULL);
    THEN("the rest of it serves small pieces without asking again");
    fake_os_refuse(FAKE_OS_ALL);
    unsigned char *next = ps_metadata_take(4096);
    REQUIRE(next != NULL);
    CHECK(next + 4096 <= piece || piece + 4096 <= next);
}

FRESH_TEST(where_a_piece_is_refused_no_more_is_taken_than_is_needed) {
    unsigned char *first = ps_metadata_take(4096);
    REQUIRE(first != NULL);
    size_t piece_bytes = ps_metadata_x_bytes;
    GIVEN("a system that gives 64 KiB at a time");
    fake_os_limit_reserve(65536);
    unsigned char *large[8];
    for (size_t i = 0; i < 8; i++) {
        large[i] = ps_metadata_take(65536);
        REQUIRE(large[i] != NULL);
        CHECK(is_zero(large[i], 65536));
        memset(large[i], 1, 65536);
    }
    CHECK_CMP(ps_metadata_x_bytes, <=, piece_bytes + 8 * 65536);
    THEN("the rest of the last piece still serves small ones");
    uint64_t calls = fake_os_calls(FAKE_OS_RESERVE);
    CHECK(ps_metadata_take(4096) != NULL);
    CHECK_EQ(fake_os_calls(FAKE_OS_RESERVE), calls);
    WHEN("the limit is lifted");
    fake_os_limit_reserve(SIZE_MAX);
    CHECK(ps_metadata_take(65536) != NULL);
    THEN("pieces are as usual");
    CHECK_CMP(ps_metadata_x_bytes, >=, 2 * piece_bytes);
}

UNIT_MAIN
