/* SPDX-License-Identifier: MIT */
/*
 * See limit.h. Lock: limit_lock, protects all here but the word of the setting; x_ are also read
 * without it.
 */
#include "pools/engine/heap/limit.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/os/cgroup.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define COMPARE_MS_LEAST 4 /* a period of the clock; reading RSS takes 3 us */
#define COMPARE_MS_MOST 250
#define GROWTH_BYTES_PER_MS ((size_t)16 << 20) /* faster than a thread faults pages in */
#define COMPARE_BYTES_LEAST ((size_t)1 << 20)  /* of fresh memory between two comparisons */
#define LIMIT_MS 60000                         /* between two readings of the limit */
#define STALL_MS 1000                          /* and of the pressure that the kernel reports */
#define STALL_HUNDREDTHS 1000                  /* of a per cent of the time: near */
#define NEAR_FRACTION 8                        /* near from limit - limit / 8 on */
#define CLOSE_FRACTION 16
#define ROOM_STEP_BYTES ((size_t)4 << 20) /* of fresh memory, for a step of ps_limit_make_room */
#define HARD_STEPS 64                     /* that release memory before a request fails */
#define REARM_FRACTION 8 /* the mark may be reached again from mark - mark / 8 on */

struct ps_limit_words ps_limit_words;

static struct ps_lock limit_lock = PS_LOCK_INIT(PS_RANK_LIMIT);
static PS_SPARSE struct ps_cgroup group;
static bool is_stalled; /* the kernel has reported pressure */
static uint64_t last_rss_bytes;
static uint64_t next_limit_ms;
static uint64_t next_stall_ms;
static uint64_t x_next_compare_ms;
static uint64_t x_fresh_bytes;   /* taken since the last comparison */
static uint64_t x_compare_bytes; /* of these, for which the next is due */
struct ps_limit_counts ps_limit_x_counts = {.source = "none"};

/* The bounds beside the soft limit, in bytes; UINT64_MAX: none. */
static struct ps_limit_setting hard_setting;
static uint64_t hard_bytes = UINT64_MAX;
static uint64_t mark_bytes = UINT64_MAX;
static uint64_t mark_limit_bytes;   /* the limit that the mark is near */
static uint64_t x_told_limit_bytes; /* the same for readers without the lock; 0: no mark */
static const char *mark_source;
static bool is_marked; /* the mark was reached, and usage has not fallen since */

/* The result of a comparison. */
struct comparison {
    uint64_t excess_bytes; /* over the bound of the soft limit for "near" */
    bool is_refused;       /* the expected bytes exceed the hard limit */
    bool has_reached;      /* the mark, just now */
    struct ps_limit_mark mark;
};

__attribute__((weak)) void ps_limit_reached(const struct ps_limit_mark *mark) { (void)mark; }

static uint64_t word_of(const struct ps_limit_setting *setting) {
    return setting->percent != 0 ? PS_LIMIT_PERCENT | setting->percent
                                 : ps_min((uint64_t)setting->bytes, PS_LIMIT_PERCENT - 1);
}

PS_AT_START void ps_limit_start(const struct ps_config *config) {
    hard_setting = config->limit_hard;
    bool is_hard = hard_setting.bytes != 0 || hard_setting.percent != 0;
    bool is_soft = config->limit.bytes != 0 || config->limit.percent != 0;
    /* Free memory returns before requests fail. */
    const struct ps_limit_setting *soft = is_soft || !is_hard ? &config->limit : &hard_setting;
    ps_store_relaxed(&ps_limit_words.x_setting, word_of(soft)); /* relaxed: there is one thread */
    ps_limit_words.bounds =
        (is_hard ? PS_LIMIT_HAS_HARD : 0) | (config->flight ? PS_LIMIT_HAS_MARK : 0);
}

static uint64_t near_bytes(uint64_t limit) { return limit - limit / NEAR_FRACTION; }

static enum ps_pressure pressure_of(uint64_t rss_bytes, uint64_t limit) {
    if (rss_bytes >= limit) {
        return PS_PRESSURE_OVER;
    }
    if (rss_bytes >= limit - limit / CLOSE_FRACTION) {
        return PS_PRESSURE_CLOSE;
    }
    return rss_bytes >= near_bytes(limit) ? PS_PRESSURE_NEAR : PS_PRESSURE_NONE;
}

static const char *name_of(enum ps_cgroup_source source) {
    switch (source) {
    case PS_CGROUP_LIMIT:
        return "limit_in_bytes";
    case PS_CGROUP_MAX:
        return "memory.max";
    case PS_CGROUP_HIGH:
        return "memory.high";
    case PS_CGROUP_NONE:
        break;
    }
    return "machine";
}

/* ---- under the lock ---- */

static uint64_t part_of(uint64_t whole, uint64_t percent) {
    return whole / 100 * percent + whole % 100 * percent / 100;
}

/* The soft limit. */
static void look_up_soft(uint64_t whole, const char *whole_source) {
    uint64_t setting = ps_limit_words.x_compared;
    bool is_percent = (setting & PS_LIMIT_PERCENT) != 0;
    uint64_t bytes =
        is_percent ? part_of(whole, ps_min(setting & ~PS_LIMIT_PERCENT, 100)) : setting;
    const char *source = is_percent ? whole_source : "setting";
    if (setting == 0) {
        return;
    }
    ps_store_relaxed(&ps_limit_x_counts.bytes,
                     ps_max(bytes, 1));                  /* relaxed: written under the lock only */
    ps_store_relaxed(&ps_limit_x_counts.source, source); /* relaxed: for statistics */
}

static void look_up_limit(void) {
    ps_cgroup_read("", &group);
    uint64_t memory_bytes = ps_os_memory_bytes();
    bool is_limited = group.limit_bytes < memory_bytes;
    uint64_t whole = is_limited ? group.limit_bytes : memory_bytes;
    const char *source = name_of(is_limited ? group.source : PS_CGROUP_NONE);
    look_up_soft(whole, source);
    if ((ps_limit_words.bounds & PS_LIMIT_HAS_HARD) != 0) {
        hard_bytes =
            hard_setting.percent != 0 ? part_of(whole, hard_setting.percent) : hard_setting.bytes;
    }
    if ((ps_limit_words.bounds & PS_LIMIT_HAS_MARK) == 0) {
        return;
    }
    bool is_soft = ps_limit_words.x_compared != 0;
    /* relaxed: written under the lock. */
    uint64_t soft_bytes = ps_load_relaxed(&ps_limit_x_counts.bytes);
    mark_limit_bytes = is_soft ? soft_bytes : whole;
    mark_source = is_soft ? "POOLSHIM_LIMIT" : source;
    mark_bytes = is_soft      ? soft_bytes
                 : is_limited ? part_of(whole, PS_LIMIT_MARK_PERCENT)
                              : UINT64_MAX;
    /* relaxed: a figure by itself. */
    ps_store_relaxed(&x_told_limit_bytes, mark_bytes != UINT64_MAX ? mark_limit_bytes : 0);
}

uint64_t ps_limit_of_mark(void) {
    return ps_load_relaxed(&x_told_limit_bytes); /* relaxed: it may be old */
}

static void set_pressure(enum ps_pressure pressure) {
    if (pressure != PS_PRESSURE_NONE && ps_retention_is_usual()) {
        ps_owner_add(&ps_limit_x_counts.near_count, 1);
    }
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)pressure); /* relaxed: see retention.h */
}

/* Takes up a setting that has changed. */
static void take_setting(void) {
    /* relaxed, all: words written under the lock, and a setting of one word. */
    uint64_t setting = ps_load_relaxed(&ps_limit_words.x_setting);
    if (setting == ps_limit_words.x_compared) {
        return;
    }
    ps_store_relaxed(&ps_limit_words.x_compared, setting);
    next_limit_ms = 0;
    if (setting == 0) {
        set_pressure(PS_PRESSURE_NONE);
        ps_store_relaxed(&ps_limit_x_counts.bytes, (uint64_t)0);
        ps_store_relaxed(&ps_limit_x_counts.source, "none");
    }
}

/* The time until the next comparison: less than memory needs to grow to the limit. */
static uint64_t pause_ms(uint64_t room) {
    return ps_max(ps_min(room / GROWTH_BYTES_PER_MS, COMPARE_MS_MOST), COMPARE_MS_LEAST);
}

/* Compares the usage with the soft limit. Returns what may be taken until it is near. */
static uint64_t compare_soft(uint64_t now_ms, uint64_t wanted_bytes, struct comparison *out) {
    if (ps_limit_words.x_compared == 0) {
        return UINT64_MAX;
    }
    uint64_t limit =
        ps_load_relaxed(&ps_limit_x_counts.bytes); /* relaxed: written under the lock only */
    enum ps_pressure pressure = pressure_of(wanted_bytes, limit);
    if (now_ms >= next_stall_ms) {
        next_stall_ms = now_ms + STALL_MS;
        is_stalled = ps_cgroup_pressure(&group) >= STALL_HUNDREDTHS;
    }
    if (pressure == PS_PRESSURE_NONE && is_stalled) {
        pressure = PS_PRESSURE_NEAR;
    }
    set_pressure(pressure);
    out->excess_bytes = wanted_bytes - ps_min(wanted_bytes, near_bytes(limit));
    return near_bytes(limit) - ps_min(near_bytes(limit), wanted_bytes);
}

/* The memory by which the kernel kills: the usage of the group that has the limit, if that is more
 * than RSS. */
static uint64_t usage_of(uint64_t rss_bytes) {
    uint64_t lowest = ps_min(hard_bytes, mark_bytes);
    uint64_t usage = ps_cgroup_usage(&group, lowest - lowest / REARM_FRACTION);
    return ps_max(usage, rss_bytes);
}

/* Compares the usage with the bounds beside the soft limit. Returns what may be taken until the
 * next comparison at most. */
static uint64_t compare_bounds(uint64_t rss_bytes, size_t expected_bytes, struct comparison *out) {
    uint64_t soft = ps_limit_words.x_compared;
    if (ps_limit_words.bounds == 0) {
        return UINT64_MAX;
    }
    uint64_t group_bytes = usage_of(rss_bytes);
    uint64_t hard_usage = hard_setting.percent != 0 ? group_bytes : rss_bytes;
    uint64_t hard_room = hard_bytes - ps_min(hard_bytes, hard_usage);
    bool is_percent = soft == 0 || (soft & PS_LIMIT_PERCENT) != 0;
    uint64_t mark_usage = is_percent ? group_bytes : rss_bytes;
    bool has_mark = (ps_limit_words.bounds & PS_LIMIT_HAS_MARK) != 0;
    out->is_refused = expected_bytes > hard_room;
    bool is_beyond = has_mark && (mark_usage >= mark_bytes || out->is_refused);
    out->has_reached = is_beyond && !is_marked;
    out->mark = (struct ps_limit_mark){mark_usage, mark_limit_bytes, mark_source};
    is_marked = is_beyond || (is_marked && mark_usage >= mark_bytes - mark_bytes / REARM_FRACTION);
    uint64_t mark_room = mark_usage >= mark_bytes ? UINT64_MAX : mark_bytes - mark_usage;
    return ps_min(hard_room, mark_room) / 2;
}

/* Compares the usage, with expected_bytes more, with all bounds. */
static struct comparison compare(uint64_t now_ms, size_t expected_bytes) {
    struct comparison found = {.excess_bytes = 0};
    take_setting();
    if (!ps_limit_is_on()) {
        return found; /* the limit has been removed */
    }
    if (now_ms >= next_limit_ms) {
        next_limit_ms = now_ms + LIMIT_MS;
        look_up_limit();
    }
    uint64_t rss_bytes = ps_os_rss_bytes();
    rss_bytes = rss_bytes != 0 ? rss_bytes : last_rss_bytes; /* no descriptor is left, say */
    last_rss_bytes = rss_bytes;
    uint64_t wanted_bytes = rss_bytes + ps_min(expected_bytes, (uint64_t)1 << 62);
    uint64_t soft_room = compare_soft(now_ms, wanted_bytes, &found);
    uint64_t bound_room = compare_bounds(rss_bytes, expected_bytes, &found);
    uint64_t room = ps_min(soft_room, bound_room);
    /* Near the hard limit each request is compared. */
    uint64_t next_bytes = ps_min(ps_max(room, COMPARE_BYTES_LEAST), ps_max(bound_room, 1));
    ps_store_relaxed(&x_compare_bytes, next_bytes);                /* relaxed: a hint */
    ps_store_relaxed(&x_fresh_bytes, (uint64_t)0);                 /* relaxed: as above */
    ps_store_relaxed(&x_next_compare_ms, now_ms + pause_ms(room)); /* relaxed: a hint */
    return found;
}

/* ---- without ---- */

/* Releases the lock, and tells of the mark. */
static struct comparison end_comparison(struct comparison found) {
    ps_lock_release(&limit_lock);
    if (found.has_reached) {
        ps_limit_reached(&found.mark);
    }
    return found;
}

void ps_limit_tick(uint64_t now_ms) {
    /* relaxed: a hint; the holder of the lock compares. */
    if (now_ms >= ps_load_relaxed(&x_next_compare_ms) && ps_lock_try(&limit_lock)) {
        end_comparison(compare(now_ms, 0));
    }
}

void ps_limit_set(const struct ps_limit_setting *new_setting) {
    ps_store_relaxed(&ps_limit_words.x_setting, word_of(new_setting)); /* relaxed: as above */
    ps_lock_acquire(&limit_lock);
    take_setting();
    next_limit_ms = 0;
    /* relaxed, both: as in compare. */
    ps_store_relaxed(&x_next_compare_ms, (uint64_t)0);
    ps_store_relaxed(&x_compare_bytes, (uint64_t)0);
    ps_lock_release(&limit_lock);
}

/* Returns whether anything may be left to release. */
static bool release_step(uint64_t now_ms) {
    bool has_released = ps_mapping_expire(now_ms) != 0;
    ps_purge_tick(now_ms);
    ps_medium_purge_tick(now_ms);
    return has_released || ps_purge_is_behind() || ps_medium_purge_is_behind();
}

/* Counts fresh memory, and takes the lock if a comparison is due. */
static bool is_compare_due(size_t bytes) {
    /* relaxed, both: an estimate, by which RSS is read or not. */
    uint64_t fresh = ps_add_relaxed(&x_fresh_bytes, (uint64_t)bytes) + bytes;
    if (fresh < ps_load_relaxed(&x_compare_bytes)) {
        return false;
    }
    if ((ps_limit_words.bounds & PS_LIMIT_HAS_HARD) == 0) {
        return ps_lock_try(&limit_lock);
    }
    ps_lock_acquire(&limit_lock);
    return true;
}

bool ps_limit_make_room(size_t bytes) {
    if (!is_compare_due(bytes)) {
        return true;
    }
    uint64_t now_ms = ps_os_now_ms();
    struct comparison found = end_comparison(compare(now_ms, bytes));
    size_t steps =
        found.excess_bytes != 0 ? ps_min(found.excess_bytes, bytes) / ROOM_STEP_BYTES + 1 : 0;
    steps = found.is_refused ? ps_max(steps, HARD_STEPS) : steps;
    while (steps > 0 && release_step(now_ms)) {
        steps--;
    }
    if (found.is_refused) {
        ps_lock_acquire(&limit_lock);
        found = end_comparison(compare(now_ms, bytes));
    }
    return !found.is_refused;
}

void ps_limit_fork_child(void) {
    if (ps_lock_fork_child(&limit_lock)) {
        next_limit_ms = 0;
        next_stall_ms = 0;
        ps_store_relaxed(&x_next_compare_ms, (uint64_t)0); /* relaxed: one thread */
    }
}
