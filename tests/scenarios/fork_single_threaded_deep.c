// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/* A chain of thirty generations: each child checks, frees and replaces what its ancestors made. */
#include "claim.h"

#include <sys/wait.h>

#define SLOTS 2000

static unsigned char *blocks[SLOTS];

static size_t size_of(unsigned slot, unsigned generation) {
    return (slot * 37 + generation * 101) % 3000 + 1;
}

static void live(unsigned generation) {
    for (unsigned slot = generation % 3; slot < SLOTS; slot += 3) {
        if (blocks[slot] != NULL) {
            unsigned maker = blocks[slot][0];
            CLAIM(maker < generation && blocks[slot][size_of(slot, maker) - 1] == maker);
            free(blocks[slot]);
        }
        blocks[slot] = malloc(size_of(slot, generation));
        CLAIM(blocks[slot] != NULL);
        blocks[slot][0] = (unsigned char)generation;
        blocks[slot][size_of(slot, generation) - 1] = (unsigned char)generation;
    }
}

int main(void) {
    for (unsigned generation = 0; generation < 30; generation++) {
        live(generation);
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child != 0) {
            int status = 0;
            CLAIM(waitpid(child, &status, 0) == child);
            CLAIM(WIFEXITED(status));
            return WEXITSTATUS(status);
        }
    }
    return 0;
}
