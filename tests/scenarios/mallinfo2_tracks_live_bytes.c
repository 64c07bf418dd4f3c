// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * mallinfo2 counts this heap: uordblks + hblkhd follows the live bytes, up and down, for small,
 * medium and large blocks; mallinfo shows the same numbers.
 */
#include "claim.h"

#include <malloc.h>

/* Live bytes as mallinfo2 reports them: blocks with a mapping of their own are in hblkhd only. */
static size_t live_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void check(size_t size, size_t count) {
    void **blocks = malloc(count * sizeof *blocks);
    CLAIM(blocks != NULL);
    size_t before = live_bytes();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        ((char *)blocks[i])[0] = 1;
    }
    size_t full = live_bytes();
    size_t payload = size * count;
    CLAIM(full >= before + payload);
    CLAIM(full <= before + payload + payload / 2 + ((size_t)1 << 20));
    for (size_t i = 0; i < count / 2; i++) {
        free(blocks[i]);
    }
    size_t half = live_bytes();
    CLAIM(half >= before + payload / 2);
    CLAIM(half <= full - payload / 2 + ((size_t)1 << 20));
    for (size_t i = count / 2; i < count; i++) {
        free(blocks[i]);
    }
    size_t empty = live_bytes();
    CLAIM(empty <= before + ((size_t)1 << 20));
    free(blocks);
}

int main(void) {
    check(64, 400000);
    check(1000, 40000);
    check(50000, 800);
    check(300000, 100);
    check((size_t)12 << 20, 8);

    struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
    CLAIM((size_t)(unsigned)narrow.uordblks <= wide.uordblks + 4096);
    CLAIM((size_t)(unsigned)narrow.uordblks + 4096 >= wide.uordblks);
    return 0;
}
