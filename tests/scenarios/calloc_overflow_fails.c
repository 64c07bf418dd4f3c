// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* calloc whose product overflows, however it wraps around, returns NULL with ENOMEM. */
#include "claim.h"

int main(void) {
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX},
        {SIZE_MAX / 2 + 1, 2},
        {(size_t)1 << 32, (size_t)1 << 32},
        {((size_t)1 << 32) + 1, (size_t)1 << 32},
        {SIZE_MAX / 3 + 2, 3},
        {SIZE_MAX / 16 + 2, 16},
        {0x100000001ul, 0xffffffffffffffful},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        errno = 0;
        CLAIM(calloc(claim_size(pairs[i][0]), claim_size(pairs[i][1])) == NULL);
        CLAIM(errno == ENOMEM);
    }
    return 0;
}
