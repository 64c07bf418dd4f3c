// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* malloc, calloc and realloc align to 16 from 9 bytes on, to 8 below, for all sizes to 1 MiB. */
#include "claim.h"

static size_t promised_alignment(size_t size) { return size <= 8 ? 8 : 16; }

/* Several blocks at once, so that neighbours inside one span are seen too. */
static void check_size(size_t size) {
    void *blocks[6];
    blocks[0] = malloc(size);
    blocks[1] = calloc(1, size);
    blocks[2] = realloc(NULL, size);
    blocks[3] = malloc(size);
    blocks[4] = malloc(size);
    blocks[5] = realloc(malloc(3), size);
    for (int i = 0; i < 6; i++) {
        CLAIM(blocks[i] != NULL);
        CLAIM(claim_is_aligned(claim_hide(blocks[i]), promised_alignment(size)));
    }
    for (int i = 0; i < 6; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    for (size_t size = 1; size <= 4096; size++) {
        check_size(size);
    }
    for (size_t size = 4096; size <= 1 << 20; size += 509) {
        check_size(size);
    }
    for (size_t size = 4096; size <= 1 << 20; size += 4096) {
        check_size(size - 1);
        check_size(size);
        check_size(size + 1);
    }
    return 0;
}
