// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Calls that succeed leave errno alone, whatever the kernel said on the way. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    for (size_t size = 1; size < (size_t)256 << 20; size = size * 3 + 1) {
        errno = 4711;
        void *block = malloc(size);
        CLAIM(block != NULL && errno == 4711);
        block = realloc(block, size * 2);
        CLAIM(block != NULL && errno == 4711);
        free(block);
        block = calloc(1, size);
        CLAIM(block != NULL && errno == 4711);
        CLAIM(malloc_usable_size(block) >= size && errno == 4711);
        free(block);
        block = aligned_alloc(4096, size);
        CLAIM(block != NULL && errno == 4711);
        free(block);
        CLAIM(errno == 4711);
    }
    return 0;
}
