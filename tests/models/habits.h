/* SPDX-License-Identifier: MIT */
/*
 * The accesses of threads to words, and their times, learned from all executions so far. Used by
 * memory_is_alone in checker.h.
 */
#ifndef HABITS_H
#define HABITS_H

#include "checker.h"

struct habit {
    uint32_t last_step[CLOCKS];  /* of each thread's events, the latest on this word; 0: none */
    uint32_t last_store[CLOCKS]; /* the latest that may change it */
    uint32_t locks;              /* held at each */
};

struct habit habit_of_nobody(void);

/* The calling thread, with these locks, is at its next event. */
void habit_learn(struct habit *habit, bool is_store, uint32_t locks);

/* Makes `known` cover `learned`; false: it did not. */
bool habit_cover(struct habit *known, const struct habit *learned);

bool habit_is_alone(const struct habit *known, bool is_store, unsigned thread, uint32_t locks,
                    const bool *is_left);

#endif
