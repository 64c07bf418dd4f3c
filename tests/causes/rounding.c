// verdict: rounding, make_node
/* SPDX-License-Identifier: MIT */
/* Blocks a little larger than a size class. */
#include "tests/causes/cause.h"

#define NODES 40000

static void *nodes[NODES];

SITE void *make_node(void) {
    void *block = filled(malloc(1048), 1048);
    __asm__ volatile("");
    return block;
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = make_node();
    }
    for (unsigned step = 0; step < 200; step++) {
        for (unsigned i = 0; i < 50; i++) {
            size_t index = random_number() % NODES;
            free(nodes[index]);
            nodes[index] = make_node();
        }
        work_on(1);
    }
    return 0;
}
