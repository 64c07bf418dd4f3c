// verdict: nothing
/* SPDX-License-Identifier: MIT */
/* A table of many sizes, in which rows are replaced: the resident memory is in use. */
#include "tests/causes/cause.h"

#define ROWS 50000

static void *rows[ROWS];

/* 4/5 of the sizes are those of classes. */
SITE void fill_row(size_t index) {
    static const size_t sizes[] = {64, 128, 256, 512, 1024, 1024, 2048, 4096};
    size_t bytes = random_number() % 5 != 0 ? sizes[random_number() % 8] : random_between(16, 2048);
    rows[index] = filled(malloc(bytes), bytes);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < ROWS; i++) {
        fill_row(i);
    }
    for (unsigned step = 0; step < 200; step++) {
        for (unsigned i = 0; i < 100; i++) {
            size_t index = random_number() % ROWS;
            free(rows[index]);
            fill_row(index);
        }
        work_on(1);
    }
    return 0;
}
