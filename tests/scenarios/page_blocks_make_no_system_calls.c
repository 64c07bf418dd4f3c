// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * 10,000 page-aligned page blocks, allocated and freed again and again: after the first two rounds
 * the page cache serves all of it, without one memory system call.
 */
#include "syscall_count.h"

#define BLOCKS 10000
#define ROUNDS 12

static void run_rounds(void) {
    static void *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            CLAIM(posix_memalign(&blocks[i], 4096, 4096) == 0);
            *(char *)blocks[i] = 1;
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
        syscall_count_mark();
    }
}

int main(void) { return syscall_count_none_from(2, run_rounds); }
