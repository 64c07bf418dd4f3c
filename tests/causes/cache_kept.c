// verdict: cache
/* SPDX-License-Identifier: MIT */
/* All is freed, and then the program sleeps: free pages are resident until its next call. */
#include "tests/causes/cause.h"

#define BLOCKS 8000

static void *blocks[BLOCKS];

SITE void *read_chunk(void) {
    size_t bytes = random_between(100, 12000);
    void *block = filled(malloc(bytes), bytes);
    __asm__ volatile("");
    return block;
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = read_chunk();
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    pause_ms(2000);
    return 0;
}
