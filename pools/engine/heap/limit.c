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

static uint64_t word_of(const struct ps_limit_setting *setting) {
    return setting->percent != 0 ? PS_LIMIT_PERCENT | setting->percent
                                 : ps_min((uint64_t)setting->bytes, PS_LIMIT_PERCENT - 1);
}

PS_AT_START void ps_limit_start(const struct ps_config *config) {
    /* relaxed: there is one thread, and the word is all that is read. */
    ps_store_relaxed(&ps_limit_words.x_setting, word_of(&config->limit));
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

static void look_up_limit(void) {
    uint64_t setting = ps_limit_words.x_compared;
    uint64_t percent = ps_min(setting & ~PS_LIMIT_PERCENT, 100);
    uint64_t bytes = setting;
    const char *source = "setting";
    ps_cgroup_read("", &group);
    if ((setting & PS_LIMIT_PERCENT) != 0) {
        uint64_t memory_bytes = ps_os_memory_bytes();
        bool is_limited = group.limit_bytes < memory_bytes;
        uint64_t whole = is_limited ? group.limit_bytes : memory_bytes;
        bytes = whole / 100 * percent + whole % 100 * percent / 100;
        source = name_of(is_limited ? group.source : PS_CGROUP_NONE);
    }
    ps_store_relaxed(&ps_limit_x_counts.bytes,
                     ps_max(bytes, 1));                  /* relaxed: written under the lock only */
    ps_store_relaxed(&ps_limit_x_counts.source, source); /* relaxed: for statistics */
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

/* Compares RSS and expected_bytes with the limit. Returns the excess over the bound for "near". */
static uint64_t compare(uint64_t now_ms, size_t expected_bytes) {
    take_setting();
    if (ps_limit_words.x_compared == 0) {
        return 0; /* the limit has been removed */
    }
    if (now_ms >= next_limit_ms) {
        next_limit_ms = now_ms + LIMIT_MS;
        look_up_limit();
    }
    uint64_t limit =
        ps_load_relaxed(&ps_limit_x_counts.bytes); /* relaxed: written under the lock only */
    uint64_t rss_bytes = ps_os_rss_bytes();
    rss_bytes = rss_bytes != 0 ? rss_bytes : last_rss_bytes; /* no descriptor is left, say */
    last_rss_bytes = rss_bytes;
    uint64_t wanted_bytes = rss_bytes + ps_min(expected_bytes, (uint64_t)1 << 62);
    enum ps_pressure pressure = pressure_of(wanted_bytes, limit);
    if (now_ms >= next_stall_ms) {
        next_stall_ms = now_ms + STALL_MS;
        is_stalled = ps_cgroup_pressure(&group) >= STALL_HUNDREDTHS;
    }
    if (pressure == PS_PRESSURE_NONE && is_stalled) {
        pressure = PS_PRESSURE_NEAR;
    }
    set_pressure(pressure);
    uint64_t room = near_bytes(limit) - ps_min(near_bytes(limit), wanted_bytes);
    ps_store_relaxed(&x_compare_bytes, ps_max(room, COMPARE_BYTES_LEAST)); /* relaxed: a hint */
    ps_store_relaxed(&x_fresh_bytes, (uint64_t)0);                         /* relaxed: as above */
    ps_store_relaxed(&x_next_compare_ms, now_ms + pause_ms(room));         /* relaxed: a hint */
    return wanted_bytes - ps_min(wanted_bytes, near_bytes(limit));
}

/* ---- without ---- */

void ps_limit_tick(uint64_t now_ms) {
    /* relaxed: a hint; the holder of the lock compares. */
    if (now_ms >= ps_load_relaxed(&x_next_compare_ms) && ps_lock_try(&limit_lock)) {
        (void)compare(now_ms, 0);
        ps_lock_release(&limit_lock);
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
    return fresh >= ps_load_relaxed(&x_compare_bytes) && ps_lock_try(&limit_lock);
}

void ps_limit_make_room(size_t bytes) {
    if (!is_compare_due(bytes)) {
        return;
    }
    uint64_t now_ms = ps_os_now_ms();
    uint64_t missing = compare(now_ms, bytes);
    ps_lock_release(&limit_lock);
    size_t steps = missing != 0 ? ps_min(missing, bytes) / ROOM_STEP_BYTES + 1 : 0;
    while (steps > 0 && release_step(now_ms)) {
        steps--;
    }
}

void ps_limit_fork_child(void) {
    if (ps_lock_fork_child(&limit_lock)) {
        next_limit_ms = 0;
        next_stall_ms = 0;
        ps_store_relaxed(&x_next_compare_ms, (uint64_t)0); /* relaxed: one thread */
    }
}
