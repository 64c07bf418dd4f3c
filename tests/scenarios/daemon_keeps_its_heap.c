// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/* daemon() forks and the parent leaves by _exit: the daemon continues with the heap it had. */
#include "claim.h"
#include "heap_use.h"

#include <sys/wait.h>

static void become_daemon(int report) {
    unsigned char *blocks[1000];
    for (unsigned i = 0; i < 1000; i++) {
        blocks[i] = malloc(i * 11 + 1);
        CLAIM(blocks[i] != NULL);
        claim_fill(blocks[i], i * 11 + 1, i);
    }
    CLAIM(daemon(0, 0) == 0);
    for (unsigned i = 0; i < 1000; i++) {
        CLAIM(claim_is_filled(blocks[i], i * 11 + 1, i));
        free(blocks[i]);
    }
    CLAIM(heap_use());
    CLAIM(write(report, "y", 1) == 1);
    exit(0);
}

int main(void) {
    int pipes[2];
    CLAIM(pipe(pipes) == 0);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        become_daemon(pipes[1]);
    }
    close(pipes[1]);
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char answer = 'n';
    CLAIM(read(pipes[0], &answer, 1) == 1 && answer == 'y');
    return 0;
}
