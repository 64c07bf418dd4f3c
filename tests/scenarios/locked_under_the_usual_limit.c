// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Of a process without privileges most systems lock 8 MiB: mlockall() compares all that is mapped
 * with it, and each mapping after MCL_FUTURE. It succeeds at the start of a program, which then
 * gets 3 MB of small blocks and, when memory is exhausted, ENOMEM.
 */
#include "locked_limit.h"

#define BLOCK_BYTES 1000
#define LEAST_BLOCKS 3000

int main(void) {
    set_locked_limit();
    int result = mlockall(MCL_CURRENT | MCL_FUTURE);
    if (result != 0 && errno == EPERM) {
        claim_skip("no memory may be locked here");
    }
    CLAIM(result == 0);
    size_t count = 0;
    for (; count < 100000; count++) {
        errno = 0;
        void *block = malloc(BLOCK_BYTES);
        if (block == NULL) {
            break;
        }
        memset(block, 1, BLOCK_BYTES);
    }
    CLAIM(errno == ENOMEM && count >= LEAST_BLOCKS);
    CLAIM(munlockall() == 0);
    CLAIM(malloc((size_t)20 << 20) != NULL);
    return 0;
}
