/* SPDX-License-Identifier: MIT */
/*
 * Limits of memory. From time to time compares the process's RSS, and the usage of its control
 * group, with three bounds:
 *
 *   soft  POOLSHIM_LIMIT: sets the pressure of page/retention.h, by which all caches of free memory
 *         adjust their bounds. No request fails because of it
 *   hard  POOLSHIM_LIMIT_HARD: requests that need fresh memory beyond it fail, after free memory
 *         was released
 *   mark  the soft limit, or PS_LIMIT_MARK_PERCENT of the limit of the control group where there
 *         is no soft one: the hook below is called, once each time that it is reached
 *
 * RSS is read from /proc, since other libraries, stacks and files count as well: at ticks, as fresh
 * memory is taken, and before a large block that would come near the limit. The interval shrinks as
 * RSS approaches the limit. A limit in per cent is of the lowest limit of the process's control
 * groups, or of the memory of the machine; it is looked up again every minute and in the child of a
 * fork, which may be in another group. Memory pressure of the group, as the kernel reports it
 * (PSI), counts as being near.
 *
 * The kernel kills for the usage of the group, so a percentage of the group's limit is compared
 * with that, less the page cache, where it is more than RSS.
 *
 * Any thread, without a lock. Lock PS_RANK_LIMIT, for the time of reading /proc: ps_limit_set, and
 * with a hard limit requests of fresh memory, block on it. Callers of the next two functions ask
 * ps_limit_is_on first.
 */
#ifndef PS_HEAP_LIMIT_H
#define PS_HEAP_LIMIT_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>

/*
 * The setting is one word, which another process may write, too (record/layout.h): bytes; or, with
 * PS_LIMIT_PERCENT, per cent; 0: none. The next comparison takes it up.
 */
#define PS_LIMIT_PERCENT ((uint64_t)1 << 63)

#define PS_LIMIT_HAS_HARD ((uint64_t)1)
#define PS_LIMIT_HAS_MARK ((uint64_t)2)
#define PS_LIMIT_MARK_PERCENT 95

struct ps_limit_words {
    uint64_t x_setting;
    uint64_t x_compared; /* the setting that the last comparison was with; lock */
    uint64_t bounds;     /* of PS_LIMIT_HAS_; constant after the start */
};
extern PS_HIDDEN struct ps_limit_words ps_limit_words;

/* One that has ended is on until a comparison has ended its pressure. */
static inline bool ps_limit_is_on(void) {
    /* relaxed, both: a stale value makes one comparison more, or one less. */
    return PS_UNLIKELY((ps_load_relaxed(&ps_limit_words.x_setting) |
                        ps_load_relaxed(&ps_limit_words.x_compared) | ps_limit_words.bounds) != 0);
}

/* From here on a block of its own pages is one to make room for; with a hard limit each is. */
static inline size_t ps_limit_least_bytes(void) {
    return (ps_limit_words.bounds & PS_LIMIT_HAS_HARD) != 0 ? 0 : (size_t)512 << 10;
}

/* Once, before the first heap. */
void ps_limit_start(const struct ps_config *config);

/* Sets, changes or ends the limit; the next comparison is due at once. Blocks while another thread
 * compares. */
void ps_limit_set(const struct ps_limit_setting *new_setting);

/* Called when the clock was read: compares again when it is time, which is every 4 to 250 ms. */
void ps_limit_tick(uint64_t now_ms);

/* Called before `bytes` of fresh memory are touched: compares again if much was taken since the
 * last time, since the clock advances every few milliseconds only. Near the limit, returns about as
 * much free memory to the system. False: beyond the hard limit, the request must fail. Cost:
 * proportional to `bytes`. */
bool ps_limit_make_room(size_t bytes);

/* Usage at the mark, and the limit. */
struct ps_limit_mark {
    uint64_t usage_bytes;
    uint64_t limit_bytes;
    const char *source; /* as of struct ps_limit_counts */
};

/* The limit that the mark is near, at the last comparison; 0: there is none, or it is not known
 * yet. Any thread. */
uint64_t ps_limit_of_mark(void);

/* Called when the mark is reached, without locks, in a call of malloc or free or by the background
 * thread: must not allocate, and preserves errno. The engine has a weak one that does nothing. */
PS_HOOK void ps_limit_reached(const struct ps_limit_mark *mark);

struct ps_limit_counts {
    uint64_t bytes;     /* the limit; 0: none is set, or it has not been looked up yet */
    const char *source; /* what it was computed from: a file's name, "setting", "machine", "none" */
    uint64_t near_count;
};

/* Written under the lock. Read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_limit_counts ps_limit_x_counts;

/* In the child of a fork, by its only thread. */
void ps_limit_fork_child(void);

#endif
