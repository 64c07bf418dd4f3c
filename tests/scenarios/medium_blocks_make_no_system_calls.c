// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Page runs from 20 KiB to 1 MiB, freed and allocated in changing order and size: splitting and
 * coalescing serve them from the page cache, without one memory system call in the steady state.
 */
#include "syscall_count.h"

#define BLOCKS 100
#define ROUNDS 24

static void run_rounds(void) {
    static char *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = (size_t)20000 + (size_t)((i * 37 + round * 11) % BLOCKS) * 10000;
            blocks[i] = malloc(size);
            CLAIM(blocks[i] != NULL);
            blocks[i][0] = 1;
            blocks[i][size - 1] = 1;
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i * 7 % BLOCKS]);
            blocks[i * 7 % BLOCKS] = NULL;
        }
        syscall_count_mark();
    }
}

int main(void) { return syscall_count_none_from(12, run_rounds); }
