/* SPDX-License-Identifier: MIT */
/*
 * See habits.h. Called by memory.c.
 */
#include "habits.h"

/* Later steps than were seen are assumed: that costs orders, but saves passes. */
#define STEPS_AHEAD 3

struct habit habit_of_nobody(void) { return (struct habit){.locks = UINT32_MAX}; }

void habit_learn(struct habit *habit, bool is_store, uint32_t locks) {
    unsigned thread = checker.thread;
    uint32_t step = checker.events[thread] + 1;
    habit->last_step[thread] = step > habit->last_step[thread] ? step : habit->last_step[thread];
    if (is_store && step > habit->last_store[thread]) {
        habit->last_store[thread] = step;
    }
    habit->locks &= locks;
}

static bool cover(uint32_t *known, uint32_t step) {
    if (step <= *known) {
        return true;
    }
    *known = step + STEPS_AHEAD;
    return false;
}

bool habit_cover(struct habit *known, const struct habit *learned) {
    bool is_covered = (known->locks & ~learned->locks) == 0;
    known->locks &= learned->locks;
    for (unsigned i = 1; i < CLOCKS; i++) {
        is_covered &= cover(&known->last_step[i], learned->last_step[i]);
        is_covered &= cover(&known->last_store[i], learned->last_store[i]);
    }
    return is_covered;
}

bool habit_is_alone(const struct habit *known, bool is_store, unsigned thread, uint32_t locks,
                    const bool *is_left) {
    if ((known->locks & locks) != 0) {
        return true; /* the others need a lock that the thread has */
    }
    const uint32_t *last = is_store ? known->last_step : known->last_store;
    for (unsigned i = 1; i < CLOCKS; i++) {
        if (i != thread && is_left[i] && checker.events[i] < last[i]) {
            return false;
        }
    }
    return true;
}
