// verdict: large, grow_buffer
/* SPDX-License-Identifier: MIT */
/* One block that grows and grows. */
#include "tests/causes/cause.h"

#define STEP (384 << 10)
#define STEPS 150

static char *buffer;

SITE void grow_buffer(size_t bytes) {
    buffer = realloc(buffer, bytes + STEP);
    filled(buffer + bytes, STEP);
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < STEPS; step++) {
        grow_buffer((size_t)step * STEP);
        if (step % 8 == 0) {
            work_on(1);
        }
    }
    work_on(200);
    return 0;
}
