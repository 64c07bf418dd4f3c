/* SPDX-License-Identifier: MIT */
/*
 * The longest call of malloc or free, by the thread's own processor time, which other programs on
 * the machine hardly change. Included by scenarios; one thread at a time.
 */
#ifndef PS_TESTS_OWN_TIME_H
#define PS_TESTS_OWN_TIME_H

#include "claim.h"
#include "tests/slowness.h"

#include <sys/wait.h>
#include <time.h>

/* Ten times the aim, for busy machines; a walk over the heap takes more. On slow ones as much
 * longer as other limits. */
#define OWN_TIME_LIMIT_US 10000

#define OWN_TIME_ATTEMPTS 6

static uint64_t own_time_worst_us;

__attribute__((unused)) static uint64_t own_time_us(clockid_t clock) {
    struct timespec now;
    CLAIM(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

__attribute__((unused)) static void own_time_note(uint64_t before_us) {
    uint64_t took_us = own_time_us(CLOCK_THREAD_CPUTIME_ID) - before_us;
    own_time_worst_us = took_us > own_time_worst_us ? took_us : own_time_worst_us;
}

/* A malloc and its free, each of them measured. */
__attribute__((unused)) static void own_time_pair(size_t bytes) {
    uint64_t before_us = own_time_us(CLOCK_THREAD_CPUTIME_ID);
    char *block = (char *)claim_hide(malloc(bytes));
    own_time_note(before_us);
    CLAIM(block != NULL);
    block[0] = 1;
    before_us = own_time_us(CLOCK_THREAD_CPUTIME_ID);
    free(block);
    own_time_note(before_us);
}

/* Pairs of many sizes for so long; then prints the worst time and the resident memory. */
__attribute__((unused)) static void own_time_work(unsigned milliseconds) {
    uint64_t end_us = own_time_us(CLOCK_MONOTONIC) + 1000 * (uint64_t)milliseconds;
    for (size_t i = 0; own_time_us(CLOCK_MONOTONIC) < end_us; i++) {
        own_time_pair(70000);
        own_time_pair(16 + i * 61 % 9000);
    }
    dprintf(2, "worst call %.3f ms of own time, %zu MiB resident\n",
            (double)own_time_worst_us / 1000, claim_rss_bytes() >> 20);
}

/* Processor time includes what interrupts and the machine below take from it: the claim is that
 * some attempt, each in a process of its own, has no call beyond the limit. */
__attribute__((unused)) static int own_time_attempts(void (*attempt)(void)) {
    for (int i = 0; i < OWN_TIME_ATTEMPTS; i++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            attempt();
            _exit(own_time_worst_us <= (uint64_t)OWN_TIME_LIMIT_US * slowness_factor() ? 0 : 2);
        }
        int status;
        CLAIM(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CLAIM(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
        if (WEXITSTATUS(status) == 0) {
            return 0;
        }
    }
    return 1;
}

#endif
