// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * One large block after another, 8 MiB each: freed mappings are cached and reused, so the steady
 * state makes no memory system call.
 */
#include "syscall_count.h"

#define ROUNDS 40

static void run_rounds(void) {
    for (int round = 0; round < ROUNDS; round++) {
        char *first = malloc((size_t)8 << 20);
        char *second = malloc((size_t)8 << 20);
        CLAIM(first != NULL && second != NULL);
        first[0] = second[100] = 1;
        free(claim_hide(first));
        free(claim_hide(second));
        syscall_count_mark();
    }
}

int main(void) { return syscall_count_none_from(3, run_rounds); }
