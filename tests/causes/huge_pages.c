// verdict: huge
// environment: POOLSHIM_HUGE=thp
/* SPDX-License-Identifier: MIT */
/* Little touched blocks, in memory that requests huge pages. */
#include "tests/causes/cause.h"

#define BLOCKS 64

static char *blocks[BLOCKS];

SITE void open_buffer(size_t index) {
    blocks[index] = malloc(MIB);
    filled(blocks[index], random_between(100, 4000));
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < BLOCKS; i++) {
        open_buffer(i);
    }
    work_on(180);
    return 0;
}
