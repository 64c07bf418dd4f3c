// verdict: fork
/* SPDX-License-Identifier: MIT */
/* Children write to what they have inherited: each has its own copy then. */
#include "tests/causes/cause.h"

#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 30000
#define CHILDREN 3

static struct block {
    unsigned references;
    char rest[996];
} *blocks[BLOCKS];

SITE void load_block(size_t index) {
    blocks[index] = filled(malloc(sizeof *blocks[0]), sizeof *blocks[0]);
    __asm__ volatile("");
}

static void count_references(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i]->references++;
    }
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < BLOCKS; i++) {
        load_block(i);
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            work_on(30);
            count_references();
            work_on(160);
            _exit(0);
        }
    }
    work_on(150);
    while (wait(NULL) > 0) {
    }
    return 0;
}
