// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Memory for the engine's own structures: zeroed, apart, accounted, and gone only together. */
#include "pools/page/metadata.h"

#include "pools/base/compiler.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#define PIECES 3000

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
        CHECK_EQ((uintptr_t)pieces[i] % PS_CACHE_LINE, 0);
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
    CHECK_EQ(ps_metadata_bytes(), fake_os_mapped_bytes());
}

FRESH_TEST(a_map_is_zeroed_and_counted) {
    unsigned char *map = ps_metadata_map((size_t)2 << 20);
    REQUIRE(map != NULL);
    CHECK(is_zero(map, (size_t)2 << 20));
    CHECK_EQ(ps_metadata_bytes(), 2 << 20);
    CHECK_EQ(fake_os_mapped_bytes(), 2 << 20);
}

FRESH_TEST(exhaustion_gives_null_and_changes_nothing) {
    GIVEN("a system that refuses memory");
    fake_os_refuse(FAKE_OS_ALL);
    CHECK_PTR_EQ(ps_metadata_take(1), NULL);
    CHECK_PTR_EQ(ps_metadata_map(65536), NULL);
    CHECK_EQ(ps_metadata_bytes(), 0);
    WHEN("it gives some again");
    fake_os_refuse(0);
    unsigned char *piece = ps_metadata_take(4096);
    REQUIRE(piece != NULL);
    THEN("what is left of that serves small pieces without asking again");
    fake_os_refuse(FAKE_OS_ALL);
    unsigned char *next = ps_metadata_take(4096);
    REQUIRE(next != NULL);
    CHECK(next + 4096 <= piece || piece + 4096 <= next);
}

UNIT_MAIN
