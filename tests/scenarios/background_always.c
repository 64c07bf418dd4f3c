// expect: exit 0
// env: POOLSHIM_BACKGROUND=1 POOLSHIM_PURGE_DELAY_MS=100
/* SPDX-License-Identifier: MIT */
/* With BACKGROUND=1 the background thread also serves a program that has no other: memory goes back
 * in silence, and a child that the program forks has one thread. */
#include "silence.h"
#include "tasks.h"

#include <sys/wait.h>

static void *blocks[SILENCE_BLOCKS];

int main(void) {
    tasks_await(2, 1);
    size_t before = claim_rss_bytes();
    silence_rise(blocks);
    CLAIM(claim_rss_bytes() > SILENCE_PEAK_BYTES);
    silence_fall(blocks);
    silence_await(before + SILENCE_LEFT_BYTES);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        silence_rise(blocks);
        silence_fall(blocks);
        CLAIM(tasks_list().count == 1);
        _exit(0);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
