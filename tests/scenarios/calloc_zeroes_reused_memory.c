// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* calloc gives zeroes also where a dirty block of the same or another size was freed before. */
#include "claim.h"

#include <malloc.h>

#define LIVE 16

/* Writes every usable byte of a few blocks and frees them in an order given by `step`. */
static void leave_dirt(size_t size, unsigned step) {
    void *blocks[LIVE];
    for (unsigned i = 0; i < LIVE; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 0xa5, malloc_usable_size(blocks[i]));
    }
    for (unsigned i = 0; i < LIVE; i++) {
        free(blocks[(i * step) % LIVE]);
    }
}

static void expect_zeroes(size_t size) {
    void *blocks[LIVE + 4];
    for (unsigned i = 0; i < LIVE + 4; i++) {
        blocks[i] = calloc(1, size);
        CLAIM(blocks[i] != NULL);
        CLAIM(claim_is_zero(claim_hide(blocks[i]), size));
        memset(blocks[i], 0x3c, size);
    }
    for (unsigned i = 0; i < LIVE + 4; i++) {
        free(blocks[i]);
    }
}

static void check(size_t size) {
    leave_dirt(size, 1);
    expect_zeroes(size);
    leave_dirt(size, LIVE - 1);
    expect_zeroes(size);
    leave_dirt(size, 5);
    expect_zeroes(size * 2 / 3);
}

int main(void) {
    for (size_t size = 1; size <= 2048; size += 7) {
        check(size);
    }
    for (size_t size = 2048; size <= 600000; size += size / 5) {
        check(size);
    }
    check(1 << 20);
    check(4 << 20);
    check((4 << 20) - 100);
    check(6 << 20);
    return 0;
}
