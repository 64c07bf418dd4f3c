// advise: scratch
/* SPDX-License-Identifier: MIT */
/* A function that needs a row for each of a few columns, and frees them before it returns. */
#include "tests/advice/advice.h"

#define ROWS 12

SITE size_t work(size_t bytes) {
    unsigned char *rows[ROWS];
    size_t sum = 0;
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = filled(malloc(bytes * (i + 1)), bytes);
    }
    for (size_t i = 0; i < ROWS; i++) {
        sum += rows[i][i];
        free(rows[i]);
    }
    return sum;
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    size_t sum = 0;
    for (unsigned step = 0; step < 20000 * scale; step++) {
        sum += work(random_between(16, 200));
    }
    return sum != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
