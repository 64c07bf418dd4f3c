// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * A timer signal interrupts malloc and free of a single-threaded program at any instruction, and
 * its handler forks a child that ends at once: no deadlock with locks of the interrupted call, and
 * both heaps remain consistent. (Real programs do this; glibc serves it.)
 */
#include "claim.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#define FORKS 150

static volatile sig_atomic_t forks;

static void fork_now(int number) {
    (void)number;
    int error = errno;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        _exit(5);
    }
    forks++;
    errno = error;
}

int main(void) {
    static unsigned char *blocks[600];
    struct sigaction action = {.sa_handler = fork_now, .sa_flags = SA_RESTART};
    CLAIM(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval timer = {{0, 1500}, {0, 1500}};
    CLAIM(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    unsigned random = 1;
    while (forks < FORKS) {
        random = random * 1664525u + 1013904223u;
        unsigned slot = (random >> 8) % 600;
        size_t size = random % 8 == 0 ? (random >> 12) % 400000 : (random >> 12) % 3000;
        if (blocks[slot] != NULL) {
            CLAIM(blocks[slot][0] == slot % 256);
            free(blocks[slot]);
        }
        blocks[slot] = malloc(size + 1);
        CLAIM(blocks[slot] != NULL);
        blocks[slot][0] = (unsigned char)slot;
    }
    return 0;
}
