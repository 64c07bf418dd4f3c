// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A realloc or reallocarray that cannot be served returns NULL and leaves the old block alone. */
#include "claim.h"

int main(void) {
    static const size_t sizes[] = {1, 8, 100, 1024, 5000, 70000, 1 << 20, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        char *block = malloc(size);
        CLAIM(block != NULL);
        claim_fill(block, size, 7);

        errno = 0;
        CLAIM(realloc(block, claim_size(SIZE_MAX - 100)) == NULL && errno == ENOMEM);
        errno = 0;
        CLAIM(realloc(block, claim_size((size_t)PTRDIFF_MAX + 1)) == NULL && errno == ENOMEM);
        errno = 0;
        CLAIM(realloc(block, claim_size((size_t)1 << 55)) == NULL && errno == ENOMEM);
        errno = 0;
        CLAIM(reallocarray(block, claim_size(SIZE_MAX / 2), 3) == NULL && errno == ENOMEM);
        errno = 0;
        CLAIM(reallocarray(block, 1u << 31, claim_size((size_t)1 << 33)) == NULL);
        CLAIM(errno == ENOMEM);

        CLAIM(claim_is_filled(block, size, 7));
        block = realloc(block, size + 1);
        CLAIM(block != NULL && claim_is_filled(block, size, 7));
        free(block);
    }
    return 0;
}
