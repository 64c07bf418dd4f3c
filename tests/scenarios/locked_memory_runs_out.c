// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * mlockall(MCL_FUTURE) under RLIMIT_MEMLOCK: mmap then refuses with EAGAIN, madvise with EINVAL.
 * malloc still says ENOMEM, zeroed memory is zero, and freed memory can be allocated again.
 */
#include "heap_use.h"
#include "locked_limit.h"

#define KIB ((size_t)1 << 10)
#define BLOCKS 40000

static unsigned char *blocks[BLOCKS];

static size_t take(void) {
    size_t count = 0;
    for (; count < BLOCKS; count++) {
        size_t size = count % 20 == 19 ? 200 * KIB : 40 + count * 61 % 3000;
        errno = 0;
        blocks[count] = calloc(1, size);
        if (blocks[count] == NULL) {
            CLAIM(errno == ENOMEM);
            break;
        }
        CLAIM(claim_is_zero(blocks[count], size));
        claim_fill(blocks[count], size, (unsigned)count);
    }
    return count;
}

static void give(size_t count) {
    for (size_t i = 0; i < count; i++) {
        CLAIM(claim_is_filled(blocks[i], 40, (unsigned)i));
        free(blocks[i]);
    }
}

int main(void) {
    CLAIM(heap_use()); /* what the heap has before is not locked */
    set_locked_limit();
    if (mlockall(MCL_FUTURE) != 0) {
        claim_skip("no memory may be locked here");
    }
    size_t count = take();
    CLAIM(count < BLOCKS && count > 500);
    give(count);
    for (int round = 0; round < 3; round++) {
        size_t again = take();
        CLAIM(again * 10 >= count * 9);
        give(again);
    }
    CLAIM(munlockall() == 0);
    CLAIM(heap_use());
    return 0;
}
