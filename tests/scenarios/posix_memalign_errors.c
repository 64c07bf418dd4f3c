// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * posix_memalign returns EINVAL for an alignment that is no power of two or no multiple of
 * sizeof(void *), ENOMEM for an absurd size, and does not touch *memptr then. As in glibc, errno
 * is ENOMEM too where memory is exhausted, and untouched otherwise.
 */
#include "claim.h"

static void expect_error(size_t alignment, size_t size, int error) {
    char marker;
    void *block = &marker;
    errno = 4711;
    int result = posix_memalign(&block, claim_size(alignment), claim_size(size));
    CLAIM(result == error);
    CLAIM(block == &marker);
    CLAIM(errno == (error == ENOMEM ? ENOMEM : 4711));
}

int main(void) {
    static const size_t wrong[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 24, 48, 100, 4095, 4097, 12288};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_error(wrong[i], 64, EINVAL);
        expect_error(wrong[i], 0, EINVAL);
    }
    expect_error(16, SIZE_MAX, ENOMEM);
    expect_error(16, SIZE_MAX - 64, ENOMEM);
    expect_error(4096, (size_t)PTRDIFF_MAX + 1, ENOMEM);
    expect_error((size_t)1 << 30, SIZE_MAX - 4096, ENOMEM);
    expect_error((size_t)1 << 62, (size_t)1 << 62, ENOMEM);
    expect_error((size_t)1 << 62, 64, ENOMEM);

    void *block = NULL;
    errno = 4711;
    CLAIM(posix_memalign(&block, 64, 100) == 0);
    CLAIM(errno == 4711);
    free(block);
    return 0;
}
