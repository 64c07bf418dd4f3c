// advise: none
/* SPDX-License-Identifier: MIT */
/* Blocks of many sizes that die in no order. */
#include "tests/advice/advice.h"

#define COUNT 5000

static void *blocks[COUNT];

SITE void *make(void) {
    size_t bytes = random_between(16, 500);
    return filled(malloc(bytes), bytes);
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 200000 * scale; step++) {
        size_t at = random_number() % COUNT;
        free(blocks[at]);
        blocks[at] = make();
    }
    return EXIT_SUCCESS;
}
