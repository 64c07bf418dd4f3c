// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* valloc aligns to the page; pvalloc does too and makes all of the last page usable. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size <= 40 * page; size += 777) {
        void *block = valloc(size);
        CLAIM(block != NULL);
        CLAIM(claim_is_aligned(block, page));
        CLAIM(malloc_usable_size(block) >= size);
        memset(block, 1, size);

        void *whole = pvalloc(size);
        size_t rounded = (size + page - 1) / page * page;
        CLAIM(whole != NULL);
        CLAIM(claim_is_aligned(whole, page));
        CLAIM(malloc_usable_size(whole) >= rounded);
        memset(whole, 2, rounded);

        free(block);
        free(whole);
    }
    void *empty = valloc(claim_size(0));
    CLAIM(empty != NULL && claim_is_aligned(empty, page));
    free(empty);
    return 0;
}
