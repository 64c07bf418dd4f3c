// expect: exit 0 "bytes"
/* SPDX-License-Identifier: MIT */
/* malloc_stats prints a summary to stderr and nothing to stdout. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    int saved = dup(1);
    int pipes[2];
    CLAIM(pipe2(pipes, O_NONBLOCK) == 0);
    CLAIM(dup2(pipes[1], 1) == 1);
    malloc_stats();
    CLAIM(dup2(saved, 1) == 1);
    char byte;
    CLAIM(read(pipes[0], &byte, 1) == -1 && errno == EAGAIN);
    return 0;
}
