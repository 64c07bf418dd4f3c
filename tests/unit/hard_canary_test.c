// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The words after a hardened block: each byte between the requested ones and the canary counts. */
#include "tests/unit/engine.h"

#include "pools/engine/harden/hard_canary.h"

#define ROOM_MOST ((size_t)192)

FRESH_TEST(every_byte_of_the_slack_is_checked) {
    static PS_ALIGNED(16) char block[ROOM_MOST + PS_CANARY_BYTES];
    engine_config.harden = 2;
    ps_engine_start();
    for (size_t room = PS_CANARY_BYTES; room <= ROOM_MOST; room += PS_CANARY_BYTES) {
        for (size_t bytes = 0; bytes <= room; bytes++) {
            ps_canary_set(block, room, bytes);
            CHECK_EQ(ps_canary_slack(block, room), room - bytes);
            CHECK(ps_canary_is_intact(block, room));
            for (size_t at = bytes; at < ps_min(room, bytes + PS_SLACK_LOOKED_AT); at++) {
                block[at] ^= 1;
                CHECK(!ps_canary_is_intact(block, room));
                block[at] ^= 1;
            }
        }
    }
}

UNIT_MAIN
