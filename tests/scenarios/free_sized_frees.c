// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * C23's free_sized and free_aligned_sized free blocks of every size regime, take NULL and preserve
 * errno. Skipped where they are undefined; the shim must define them.
 */
#include "claim.h"

#include <dlfcn.h>

typedef void (*free_sized_call)(void *block, size_t size);
typedef void (*free_aligned_sized_call)(void *block, size_t alignment, size_t size);

int main(void) {
    free_sized_call sized = (free_sized_call)dlsym(RTLD_DEFAULT, "free_sized");
    free_aligned_sized_call aligned_sized =
        (free_aligned_sized_call)dlsym(RTLD_DEFAULT, "free_aligned_sized");
    if (!claim_is_shimmed() && (sized == NULL || aligned_sized == NULL)) {
        claim_skip("neither libc nor a preloaded library has free_sized");
    }
    CLAIM(sized != NULL && aligned_sized != NULL);
    sized(NULL, 10);
    aligned_sized(NULL, 64, 10);
    size_t before = 0;
    for (int round = 0; round < 40; round++) {
        for (size_t size = 1; size < (size_t)32 << 20; size = size * 3 + 1) {
            char *block = malloc(size);
            char *aligned = aligned_alloc(4096, size);
            CLAIM(block != NULL && aligned != NULL);
            block[size - 1] = 1;
            aligned[size - 1] = 1;
            errno = 4711;
            sized(block, size);
            aligned_sized(aligned, 4096, size);
            CLAIM(errno == 4711);
        }
        if (round == 4) {
            before = claim_rss_bytes();
        }
    }
    CLAIM(claim_rss_bytes() < before + ((size_t)64 << 20));
    return 0;
}
