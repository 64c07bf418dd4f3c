// advise: none
/* SPDX-License-Identifier: MIT */
/* Objects of one size, as a pool has them, in a program that spends its time elsewhere. */
#include "tests/advice/advice.h"

#define COUNT 500
#define WORK 20000 /* per object */

struct object {
    uint64_t fields[6];
};

static struct object *objects[COUNT];
static uint64_t sum;

SITE struct object *make(void) {
    return filled(malloc(sizeof(struct object)), sizeof(struct object));
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 3000 * scale; step++) {
        size_t at = random_number() % COUNT;
        free(objects[at]);
        objects[at] = make();
        for (unsigned i = 0; i < WORK; i++) {
            sum ^= random_number();
        }
    }
    return sum != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
