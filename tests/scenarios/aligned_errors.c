// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * aligned_alloc, memalign, valloc and pvalloc fail with NULL and ENOMEM for absurd sizes;
 * an alignment beyond half of the address space is EINVAL, as in glibc.
 */
#include "claim.h"

#include <malloc.h>

static void expect(void *block, int error) {
    CLAIM(block == NULL);
    CLAIM(errno == error);
    errno = 0;
}

int main(void) {
    errno = 0;
    expect(aligned_alloc(64, claim_size(SIZE_MAX - 63)), ENOMEM);
    expect(aligned_alloc(4096, claim_size((size_t)PTRDIFF_MAX + 1)), ENOMEM);
    expect(memalign(64, claim_size(SIZE_MAX - 63)), ENOMEM);
    expect(memalign(claim_size((size_t)1 << 62), claim_size((size_t)1 << 62)), ENOMEM);
    expect(memalign(claim_size(((size_t)1 << 63) + 1), 64), EINVAL);
    expect(valloc(claim_size(SIZE_MAX)), ENOMEM);
    expect(valloc(claim_size(SIZE_MAX - 4096)), ENOMEM);
    expect(pvalloc(claim_size(SIZE_MAX)), ENOMEM);
    expect(pvalloc(claim_size(SIZE_MAX - 4094)), ENOMEM);
    expect(pvalloc(claim_size((size_t)PTRDIFF_MAX + 1)), ENOMEM);
    return 0;
}
