// advise: stack
/* SPDX-License-Identifier: MIT */
/* Work arrays of nested steps, which end in any number at a time: the newest is freed first. */
#include "tests/advice/advice.h"

#define DEPTH 60

static void *arrays[DEPTH];
static size_t depth;

SITE void push(void) {
    size_t bytes = random_between(200, 40000);
    arrays[depth++] = filled(malloc(bytes), bytes);
}

SITE void pop(void) { free(arrays[--depth]); }

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 300000 * scale; step++) {
        bool is_push = random_number() % 2 == 0;
        if (depth == 0 || (is_push && depth < DEPTH)) {
            push();
        } else {
            pop();
        }
    }
    return EXIT_SUCCESS;
}
