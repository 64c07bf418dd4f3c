/* SPDX-License-Identifier: MIT */
/*
 * Allocations are sampled while there is a demand for it: a profile that is written to a
 * file, a tracer that is attached to the probes, or another process that reads the table. Demands
 * come and go while the program runs; the plain mode's slow paths ask, its fast paths do not.
 *
 * Each time that sampling begins, or its interval changes, is an epoch of its own: the counts of a
 * thread from an earlier one are void. The table, and the live samples in it, remain when sampling
 * ends.
 *
 * Readers. Another process writes an interval and then another number into the request, again and
 * again while it wants samples, and reads the table. Sampling for it ends PS_DEMAND_BEAT_MS after
 * the number has changed for the last time, so a reader that is killed needs no cleanup, several
 * need not know of each other, and clocks need not agree. If they want different intervals, the
 * last one written applies to all; readers lower it only. A profile that is written to a file has
 * its own. The other side: scripts/poolshim_cli/profile/live.py.
 *
 * Any thread. Lock: PS_RANK_DEMAND, also while the table is mapped; only the start and a change of
 * the interval block on it.
 */
#ifndef PS_PROFILE_DEMAND_H
#define PS_PROFILE_DEMAND_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_profile_demand {
    PS_DEMAND_FILE = 1,   /* POOLSHIM_PROFILE, unless paused; needs stacks */
    PS_DEMAND_PROBES = 2, /* a tracer, which takes the stacks itself */
    PS_DEMAND_READER = 4, /* another process; needs stacks */
    PS_DEMAND_FLIGHT = 8, /* POOLSHIM_FLIGHT; needs stacks */
};

/* Demands of the configuration, which do not end by themselves. */
#define PS_DEMAND_LASTING ((uint32_t)PS_DEMAND_FILE | (uint32_t)PS_DEMAND_FLIGHT)

/* Demands for which stacks are taken. */
#define PS_DEMAND_STACKS (PS_DEMAND_LASTING | (uint32_t)PS_DEMAND_READER)

#define PS_DEMAND_BEAT_MS 5000
#define PS_DEMAND_INTERVAL_MOST ((uint64_t)1 << 40)

/* Written by other processes, which find it by record/layout.h. */
struct ps_demand_request {
    uint64_t x_interval_bytes; /* 0: that of the configuration */
    uint32_t x_beat;           /* any number; another one each time */
};
extern PS_HIDDEN struct ps_demand_request ps_demand_x_request;

extern PS_HIDDEN uint32_t ps_demand_x_set; /* of enum ps_profile_demand */
extern PS_HIDDEN uint32_t ps_demand_x_epoch;
extern PS_HIDDEN size_t ps_demand_x_interval_bytes; /* of the epoch, or of a later one */
extern PS_HIDDEN uint32_t ps_demand_x_has_begun;

/* The demands of this moment. */
static inline uint32_t ps_demand_now(void) {
    /* acquire: pairs with change of demand.c; the epoch is visible, and the next function is true
     * for each thread that gets a block that was sampled since. */
    return ps_load_acquire(&ps_demand_x_set);
}

/* True if there may be live samples: there is a table. */
static inline bool ps_demand_has_begun(void) {
    return ps_load_acquire(&ps_demand_x_has_begun) != 0; /* acquire: pairs with change */
}

/* Stores the settings for later demands; begins sampling when the configuration requests a
 * profile. */
void ps_demand_start(const struct ps_config *config);

/* Changes the interval of the configuration, of later samples. False where the mode is another than
 * the plain one, which samples nothing. Any thread, without locks. */
bool ps_demand_set_interval(size_t interval_bytes);

/* True with POOLSHIM_PROFILE, where samples can be taken, also while it is paused. Constant. */
bool ps_demand_has_file(void);

/* Ends the sampling for that file, or begins it again. False: there is none, or no memory for
 * samples. Live samples remain. Any thread. */
bool ps_demand_set_active(bool is_active);

/* Compares the demands with the probes' semaphores and with what readers ask for, and begins or
 * ends sampling. Called when a slow call, or the background thread, has read the clock. */
void ps_demand_tick(void);

/* Called when sampling begins for the first time. The engine has a weak one that does nothing. */
PS_HOOK void ps_demand_begun(void);

void ps_demand_fork_child(void);

#endif
