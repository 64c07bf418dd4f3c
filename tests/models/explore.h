/* SPDX-License-Identifier: MIT */
/*
 * An explorer of small concurrent programs: runs the threads of a scenario in every order and with
 * every value that C11 lets their atomic loads see. The code under test is the project's own,
 * compiled with -fsanitize=thread and linked with this instead of the sanitizer's library, so each
 * plain and atomic access of it comes here, with its memory order. See README.md for the method and
 * its bounds.
 *
 * A model is a program that defines explore_scenarios and links main from explore.c.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_THREADS 4 /* most threads of a scenario */

struct explore_scenario {
    const char *name;                       /* NULL ends the table */
    void (*set_up)(void);                   /* alone, before the threads */
    void (*threads[EXPLORE_THREADS])(void); /* run together */
    void (*check)(void);                    /* alone, after all threads */
    bool is_large;                          /* for --large only */
};

extern const struct explore_scenario explore_scenarios[];

/* Ends the program: this execution is wrong. */
__attribute__((noreturn)) void explore_fail(const char *text);

#define EXPLORE_ASSERT(condition)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            explore_fail("wrong: " #condition);                                                    \
        }                                                                                          \
    } while (0)

/* A plain write of the program's to these bytes, whose values do not matter: what the owner of a
 * block does with it. Races with all that is not ordered. */
void explore_use(const void *start, size_t bytes);

/* From now on any access to these bytes, ordered or not, is an error; until explore_revive. */
void explore_kill(const void *start, size_t bytes);
void explore_revive(const void *start, size_t bytes);

/* The calling thread does nothing until the word is 0: a lock whose inside is not under test. */
void explore_until_zero(const uint32_t *word);

/* The kernel's futex: sleeps if the word is `value`; wakes one sleeper, any of them. */
void explore_sleep(const uint32_t *word, uint32_t value);
void explore_wake_one(const uint32_t *word);

/* Time passes, more than a store takes to reach every processor: from now on each thread sees what
 * any thread has stored so far, or something later. Orders nothing else. */
void explore_time_passes(void);

/* The kernel's membarrier: a sequentially consistent fence in the calling thread, and during the
 * call one in each other thread. */
void explore_barrier_everywhere(void);

/* Loads before it are made before those after it, as the reads of two system calls are. */
void explore_fence_loads(void);

/* In check: what the execution came to, 0 .. 63. All that were met are printed. */
void explore_outcome(unsigned outcome);

/* 1 .. threads, and 0 in set_up and check. */
unsigned explore_thread(void);

#endif
