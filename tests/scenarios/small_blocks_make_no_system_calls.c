// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * A working set of mixed small blocks that breathes between 1 and 100,000 blocks makes no memory
 * system call once it has its pages.
 */
#include "syscall_count.h"

#define BLOCKS 100000
#define ROUNDS 12

static void run_rounds(void) {
    static void *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc((size_t)(i % 61) * 16 + 8);
            CLAIM(blocks[i] != NULL);
            *(char *)blocks[i] = 1;
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[round % 2 == 0 ? i : BLOCKS - 1 - i]);
        }
        syscall_count_mark();
    }
}

int main(void) { return syscall_count_none_from(3, run_rounds); }
