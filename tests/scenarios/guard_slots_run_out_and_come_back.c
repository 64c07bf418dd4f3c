// expect: exit 0
// env: POOLSHIM_GUARD_SAMPLE=1 POOLSHIM_GUARD_SLOTS=8
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* When all slots are taken the heap serves; when they are free again it samples again. */
#include "guarded.h"

enum { BLOCKS = 2000, SLOTS = 8 };

static char *blocks[BLOCKS];

/* How many of the blocks are guarded. */
static int take_all(void) {
    int guarded = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = claim_hide(malloc(63));
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], i, 63);
        guarded += guarded_is(blocks[i], 63);
    }
    return guarded;
}

static void free_all(void) {
    for (int i = 0; i < BLOCKS; i++) {
        CLAIM(blocks[i][0] == (char)i && blocks[i][62] == (char)i);
        free(blocks[i]);
    }
}

int main(void) {
    for (int round = 0; round < 20; round++) {
        int guarded = take_all();
        CLAIM(guarded > 0 && guarded <= SLOTS);
        free_all();
    }
    return 0;
}
