// verdict: leak, forget_session
/* SPDX-License-Identifier: MIT */
/* A large table that does not change, and beside it a leak of a fifth of it. */
#include "tests/causes/cause.h"

#define ROWS 40000

static void *rows[ROWS];

SITE void fill_row(size_t index) {
    size_t bytes = random_between(700, 1200);
    rows[index] = filled(malloc(bytes), bytes);
    __asm__ volatile("");
}

SITE void forget_session(void) {
    size_t bytes = random_between(300, 1000);
    filled(malloc(bytes), bytes);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < ROWS; i++) {
        fill_row(i);
    }
    for (unsigned step = 0; step < 220; step++) {
        for (unsigned i = 0; i < 60; i++) {
            forget_session();
        }
        for (unsigned i = 0; i < 100; i++) { /* rows come and go */
            size_t index = random_number() % ROWS;
            free(rows[index]);
            fill_row(index);
        }
        answer_request();
        pause_ms(10);
    }
    return 0;
}
