/* SPDX-License-Identifier: MIT */
/*
 * See demand.h. Lock: demand_lock, protects changes of everything here.
 */
#include "pools/engine/profile/demand.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/probe.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "pools/engine/small/size_class.h"

uint32_t ps_demand_x_set;
uint32_t ps_demand_x_epoch;
uint32_t ps_demand_x_has_begun;
size_t ps_demand_x_interval_bytes;
struct ps_demand_request ps_demand_x_request;

static struct ps_lock demand_lock = PS_LOCK_INIT(PS_RANK_DEMAND);
static size_t max_bytes; /* of the table; constant */
static bool is_possible; /* false once the table could not be mapped */
static bool has_table;
static bool has_file;        /* constant after the start */
static uint32_t x_seen_beat; /* of the request, as the next; also read without the lock */
static uint64_t x_until_ms;  /* there is a reader; 0: none */

/* ---- with the lock ---- */

static bool has_room_for_samples(void) {
    if (!has_table && is_possible) {
        has_table = ps_table_start(max_bytes);
        is_possible = has_table; /* not tried again at each tick */
    }
    return has_table;
}

/* The interval for a set of demands. */
static size_t interval_for(uint32_t set) {
    /* relaxed: any value will do. */
    uint64_t asked = ps_load_relaxed(&ps_demand_x_request.x_interval_bytes);
    bool is_asked = (set & PS_DEMAND_STACKS) == PS_DEMAND_READER && asked != 0;
    return is_asked ? (size_t)ps_min(asked, PS_DEMAND_INTERVAL_MOST)
                    : ps_load_relaxed(&ps_profile_settings.x_interval_bytes);
}

static void begin_epoch(size_t interval_bytes) {
    ps_store_relaxed(&ps_demand_x_interval_bytes, interval_bytes); /* relaxed: see the next */
    /* release: pairs with ps_profile_count_bytes; makes the interval visible. relaxed: written
     * under the lock. */
    ps_store_release(&ps_demand_x_epoch, ps_load_relaxed(&ps_demand_x_epoch) + 1);
}

__attribute__((weak)) void ps_demand_begun(void) {}

static void change(uint32_t set) {
    uint32_t before = ps_load_relaxed(&ps_demand_x_set); /* relaxed: written under the lock */
    size_t interval_bytes = interval_for(set);
    if (set != 0 && !has_room_for_samples()) {
        return;
    }
    if (set != 0) {
        /* release: pairs with ps_demand_has_begun; makes the table visible. */
        ps_store_release(&ps_demand_x_has_begun, 1u);
        ps_demand_begun();
        /* relaxed: written under the lock. */
        if (before == 0 || interval_bytes != ps_load_relaxed(&ps_demand_x_interval_bytes)) {
            begin_epoch(interval_bytes);
        }
    }
    ps_store_release(&ps_demand_x_set, set); /* release: pairs with ps_demand_now */
}

/* True while another process reads. */
static bool has_reader(uint64_t now_ms) {
    /* relaxed, all: the kernel wrote the first; the others are written under the lock. */
    uint32_t beat = ps_load_relaxed(&ps_demand_x_request.x_beat);
    uint64_t until_ms = ps_load_relaxed(&x_until_ms);
    if (beat != ps_load_relaxed(&x_seen_beat)) {
        until_ms = now_ms + PS_DEMAND_BEAT_MS;
    }
    until_ms = now_ms < until_ms ? until_ms : 0;
    ps_store_relaxed(&x_seen_beat, beat);
    ps_store_relaxed(&x_until_ms, until_ms);
    return until_ms != 0;
}

/* ---- any thread ---- */

PS_AT_START void ps_demand_start(const struct ps_config *config) {
    max_bytes = config->profile_max_bytes;
    is_possible = ps_medium_is_size(ps_size_class_max_bytes, 1);
    uint32_t lasting = (config->profile ? (uint32_t)PS_DEMAND_FILE : 0) |
                       (config->flight ? (uint32_t)PS_DEMAND_FLIGHT : 0);
    if (lasting != 0) {
        ps_lock_acquire(&demand_lock);
        change(lasting);
        has_file = config->profile && has_table;
        ps_lock_release(&demand_lock);
    }
}

bool ps_demand_set_interval(size_t interval_bytes) {
    /* relaxed, both: a number by itself; only its change to or from 0, at the start, says more. */
    if (ps_load_relaxed(&ps_profile_settings.x_interval_bytes) == 0) {
        return false;
    }
    ps_lock_acquire(&demand_lock);
    ps_store_relaxed(&ps_profile_settings.x_interval_bytes, interval_bytes);
    change(ps_demand_now());
    ps_lock_release(&demand_lock);
    return true;
}

bool ps_demand_has_file(void) { return has_file; }

bool ps_demand_set_active(bool is_active) {
    if (!has_file) {
        return false;
    }
    ps_lock_acquire(&demand_lock);
    uint32_t others = ps_demand_now() & ~(uint32_t)PS_DEMAND_FILE;
    change(others | (is_active ? (uint32_t)PS_DEMAND_FILE : 0));
    ps_lock_release(&demand_lock);
    return true;
}

/* True if a request is new, or the last one is over. */
static bool is_reader_due(void) {
    /* relaxed, all: the next tick compares a stale value again. */
    uint64_t until_ms = ps_load_relaxed(&x_until_ms);
    return ps_load_relaxed(&ps_demand_x_request.x_beat) != ps_load_relaxed(&x_seen_beat) ||
           (until_ms != 0 && ps_os_now_ms() >= until_ms);
}

PS_AT_START void ps_demand_tick(void) {
    bool is_attached = ps_probe_is_attached();
    bool is_known = (ps_demand_now() & PS_DEMAND_PROBES) != 0;
    if (PS_LIKELY(is_attached == is_known && !is_reader_due()) || !ps_lock_try(&demand_lock)) {
        return;
    }
    uint32_t set = ps_demand_now() & PS_DEMAND_LASTING;
    set |= ps_probe_is_attached() ? PS_DEMAND_PROBES : 0;
    set |= has_reader(ps_os_now_ms()) ? PS_DEMAND_READER : 0;
    change(set);
    ps_lock_release(&demand_lock);
}

/* The next tick repeats what another thread was doing: a table that was being made is not noted
 * yet.
 */
void ps_demand_fork_child(void) { (void)ps_lock_fork_child(&demand_lock); }
