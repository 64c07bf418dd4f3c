/* SPDX-License-Identifier: MIT */
/*
 * The lock, modelled with its parts: the word, the spin (one round), the kernel's futex. Claims:
 * mutual exclusion; a holder sees the writes of the previous one; no thread sleeps for ever.
 * Sources, bounds and planted faults: lock.model.
 */
#include "pools/engine/os/lock.h"

#include <explore.h>

static struct ps_lock lock = PS_LOCK_INIT(PS_RANK_PAGE);
static unsigned holders, turns;

void ps_check_failed(const char *text) { explore_fail(text); }

void ps_os_wait(uint32_t *word, uint32_t expected) { explore_sleep(word, expected); }

void ps_os_wake_one(uint32_t *word) { explore_wake_one(word); }

bool ps_os_is_first_thread(void) { return true; }

uint32_t *ps_os_word_wiped_by_fork(void) { return NULL; }

static void set_up(void) {}

static void turn(void) {
    ps_lock_thread_id = explore_thread();
    ps_lock_acquire(&lock);
    EXPLORE_ASSERT(holders == 0);
    holders++;
    turns++;
    holders--;
    ps_lock_release(&lock);
}

static void turn_twice(void) {
    turn();
    turn();
}

static void all_came(void) {
    explore_outcome(turns);
    EXPLORE_ASSERT(lock.x_state == 0);
}

const struct explore_scenario explore_scenarios[] = {
    {"two", set_up, {turn_twice, turn_twice}, all_came, false},
    {"three", set_up, {turn, turn, turn}, all_came, false},
    {"three_one_twice", set_up, {turn_twice, turn, turn}, all_came, true},
    {NULL, NULL, {NULL}, NULL, false},
};
