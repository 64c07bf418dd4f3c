/* SPDX-License-Identifier: MIT */
/* The library's own copies and fills, at every length and overlap around their limits, against
 * byte after byte. */
#include "pools/engine/os/bytes.h"

#include "tests/unit/unit.h"

#include <stdbool.h>

#define AREA 6144
#define LENGTH_LIMIT 2300 /* above the one from which an instruction copies */
#define EACH_BELOW 200    /* then every LENGTH_STEP */
#define LENGTH_STEP 61

static size_t next_length(size_t bytes) { return bytes + (bytes < EACH_BELOW ? 1 : LENGTH_STEP); }

static unsigned char area[AREA];
static unsigned char expected[AREA];

static void reset(void) {
    for (size_t i = 0; i < AREA; i++) {
        area[i] = expected[i] = (unsigned char)(i * 31 + (i >> 8));
    }
}

static bool is_expected(void) {
    for (size_t i = 0; i < AREA; i++) {
        if (area[i] != expected[i]) {
            return false;
        }
    }
    return true;
}

static void check_move(size_t to, size_t from, size_t bytes) {
    unsigned char copy[AREA];
    reset();
    for (size_t i = 0; i < bytes; i++) {
        copy[i] = area[from + i];
    }
    for (size_t i = 0; i < bytes; i++) {
        expected[to + i] = copy[i];
    }
    CHECK_PTR_EQ(ps_bytes_move(area + to, area + from, bytes), area + to);
    REQUIRE(is_expected());
}

TEST(moves_of_every_length_in_both_directions_and_apart) {
    static const size_t distances[] = {1, 7, 16, 63, 64, 65, 200, LENGTH_LIMIT};
    for (size_t bytes = 0; bytes < LENGTH_LIMIT; bytes = next_length(bytes)) {
        for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
            check_move(3, 3 + distances[i], bytes);
            check_move(3 + distances[i], 3, bytes);
        }
        check_move(5, 5, bytes);
    }
}

TEST(fills_of_every_length) {
    for (size_t bytes = 0; bytes < LENGTH_LIMIT; bytes = next_length(bytes)) {
        for (size_t to = 0; to < 9; to++) {
            reset();
            for (size_t i = 0; i < bytes; i++) {
                expected[to + i] = 0xa5;
            }
            CHECK_PTR_EQ(ps_bytes_fill(area + to, 0x7a5, bytes), area + to);
            REQUIRE(is_expected());
        }
    }
}

TEST(blocks_of_the_program_are_copied_and_zeroed) {
    reset();
    ps_bytes_copy_block(area + 1000, area, 900);
    CHECK_PTR_EQ(ps_bytes_zero_block(area + 10, 500), area + 10);
    for (size_t i = 0; i < 900; i++) {
        CHECK_EQ(area[1000 + i], expected[i]);
        CHECK_EQ(area[i], i >= 10 && i < 510 ? 0 : expected[i]);
    }
}

UNIT_MAIN
