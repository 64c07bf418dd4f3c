// advise: fifo
/* SPDX-License-Identifier: MIT */
/* A queue of messages of many sizes: frees the oldest when one is added. */
#include "tests/advice/advice.h"

#define LENGTH 3000

static void *messages[LENGTH];

SITE void *receive(void) {
    size_t bytes = random_between(16, 300);
    return filled(malloc(bytes), bytes);
}

SITE void answer(void *message) { free(message); }

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 200000 * scale; step++) {
        answer(messages[step % LENGTH]);
        messages[step % LENGTH] = receive();
    }
    return EXIT_SUCCESS;
}
