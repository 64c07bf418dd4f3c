// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Under RLIMIT_AS malloc returns NULL with ENOMEM, and serves again once something was freed. */
#include "claim.h"

#include <sys/resource.h>

#define BLOCKS 4096
#define BLOCK_BYTES ((size_t)1 << 20)

int main(void) {
    static void *blocks[BLOCKS];
    void *before = malloc(100);
    CLAIM(before != NULL);
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    CLAIM(setrlimit(RLIMIT_AS, &limit) == 0);

    size_t count = 0;
    errno = 0;
    while (count < BLOCKS) {
        blocks[count] = malloc(BLOCK_BYTES);
        if (blocks[count] == NULL) {
            break;
        }
        ((char *)blocks[count])[0] = 1;
        count++;
    }
    CLAIM(count < BLOCKS);
    CLAIM(errno == ENOMEM);
    CLAIM(count >= 256); /* a quarter of what the limit leaves is the least to expect */

    errno = 0;
    CLAIM(calloc(BLOCK_BYTES, 64) == NULL && errno == ENOMEM);
    void *kept = realloc(blocks[0], BLOCK_BYTES * 600);
    CLAIM(kept == NULL && ((char *)blocks[0])[0] == 1);

    for (size_t i = 0; i < count; i += 2) {
        free(blocks[i]);
    }
    for (size_t i = 0; i < count; i += 2) {
        blocks[i] = malloc(BLOCK_BYTES);
        CLAIM(blocks[i] != NULL);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    free(before);
    return 0;
}
