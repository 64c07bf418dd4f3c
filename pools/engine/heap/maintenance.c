/* SPDX-License-Identifier: MIT */
/*
 * See maintenance.h. No locks of its own.
 */
#include "pools/engine/heap/maintenance.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/reservoirs.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/surplus.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/retention.h"

#define TICK_CALLS 4 /* slow calls between two readings of the clock */

/* Readings between two checks of the bound on free memory: few slabs are freed meanwhile. */
#define SURPLUS_TICKS 7

/* A thread that catches up with the background thread's work does that for at most 1/32 of the
 * time; with a longer purge delay than this, not at all: the user wants memory retained. */
#define CATCH_UP_SHARE 32
#define CATCH_UP_STEP_US 1000 /* of a step that finds little to release, at most */
#define CATCH_UP_DELAY_MS 10000

/* Between two steps of the background thread: it purges for an eighth to a half of the time. */
#define BEHIND_MS 2
#define SWING_MS 100 /* the same while memory is retained for swings, which may have ended */

uint64_t ps_maintenance_x_report_ms = UINT64_MAX;

__attribute__((weak)) void ps_maintenance_report(uint64_t now_ms) { (void)now_ms; }

static void report_if_due(uint64_t now_ms) {
    /* relaxed: the hook decides which thread reports. */
    if (PS_UNLIKELY(now_ms >= ps_load_relaxed(&ps_maintenance_x_report_ms))) {
        ps_maintenance_report(now_ms);
    }
}

/* ---- requests of other processes: background.h ---- */

/* relaxed: acquired with the number. */
static uint32_t command(void) { return ps_load_relaxed(&ps_control_page.x_command); }

/* A step of a request; 0: there is none. Returns whether there is more to do. */
static bool serve(uint32_t request) {
    if (PS_LIKELY(request == 0)) {
        return false;
    }
    if (command() != PS_CONTROL_TRIM) {
        ps_control_finish(request, PS_CONTROL_UNKNOWN);
        return false;
    }
    bool has_more = false;
    ps_front_scan(true);
    uint64_t bytes = ps_reservoirs_release_step(&has_more);
    ps_control_add(bytes);
    if (bytes == 0 && !has_more) {
        ps_control_finish(request, PS_CONTROL_DONE);
        return false;
    }
    return true;
}

/* ---- threads of the program ---- */

/* True if the background thread does the work that one thread suffices for. relaxed: a moment later
 * it may. */
static bool has_background(void) {
    return ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF;
}

/* True if the bound of surplus.h applies. Otherwise the background thread releases free memory
 * while the program makes no calls. */
static bool is_bounded(void) { return !has_background() && ps_background_threads() <= 1; }

/* Once in a while returns what the thread has not used, and, by the driver, what no thread has. Not
 * sooner: a second scan at once would find all blocks unused. */
static void scan_if_due(uint64_t now_ms, bool is_driver) {
    struct ps_front_words *words = &ps_front_thread;
    bool is_all = !ps_retention_is_usual();
    uint64_t early_ms = PS_RETENTION_SCAN_MS - ps_retention_interval_ms(PS_RETENTION_SCAN_MS);
    if (now_ms + early_ms < words->next_scan_ms) {
        return;
    }
    words->next_scan_ms = now_ms + PS_RETENTION_SCAN_MS;
    ps_front_scan(is_all);
    if (is_driver) {
        ps_reservoirs_collect(is_all, is_all);
    }
}

/* Observes swings; where the bound on free memory applies, every few readings, and enforces it.
 * Returns whether it is exceeded. */
static bool tick_surplus(uint64_t now_ms) {
    struct ps_front_words *words = &ps_front_thread;
    if (!is_bounded()) {
        return ps_surplus_tick(now_ms, false);
    }
    if (words->surplus_countdown-- != 0) {
        return false;
    }
    bool is_beyond = ps_surplus_tick(now_ms, true);
    words->surplus_countdown = is_beyond ? 0 : SURPLUS_TICKS;
    return is_beyond;
}

static bool tick_all(uint64_t now_ms, bool is_driver) {
    if (ps_limit_is_on()) {
        ps_limit_tick(now_ms);
    }
    ps_mode.hook.tick();
    bool is_behind = tick_surplus(now_ms);
    return ps_reservoirs_tick(now_ms, is_driver) || is_behind;
}

void ps_maintenance_tick_now(void) {
    uint64_t now_ms = ps_os_now_ms();
    bool is_driver = !has_background();
    ps_front_share_beside_others();
    ps_background_note();
    scan_if_due(now_ms, is_driver);
    bool is_behind = tick_all(now_ms, is_driver);
    if (is_driver) {
        is_behind |= serve(ps_control_request());
        report_if_due(now_ms);
    }
    ps_front_thread.is_behind = is_behind;
}

void ps_maintenance_tick(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (PS_UNLIKELY(++words->calls % TICK_CALLS == 0 || words->is_behind)) {
        ps_maintenance_tick_now();
    }
}

void ps_maintenance_tick_after_free(void) {
    if (is_bounded()) {
        ps_front_thread.surplus_countdown = 0;
        ps_maintenance_tick_now();
    } else {
        ps_maintenance_tick();
    }
}

/* ---- the background thread ---- */

static uint64_t next_collect_ms; /* of that thread */

uint32_t ps_maintenance_step(uint64_t now_ms) {
    if (now_ms >= next_collect_ms) {
        next_collect_ms = now_ms + ps_retention_interval_ms(PS_RETENTION_SCAN_MS);
        ps_reservoirs_collect(!ps_retention_is_usual(), true);
    }
    bool is_behind = tick_all(now_ms, true) || ps_store_purge_is_due(now_ms);
    is_behind |= serve(ps_control_request());
    uint32_t swing_ms = ps_retention_kept_bytes() != 0 ? SWING_MS : 0;
    return is_behind ? BEHIND_MS : swing_ms;
}

static uint64_t next_catch_up_us; /* of the only thread */

bool ps_maintenance_may_catch_up(void) {
    return ps_retention_usual_delay_ms() <= CATCH_UP_DELAY_MS && ps_os_now_us() >= next_catch_up_us;
}

void ps_maintenance_catch_up(void) {
    uint64_t start_us = ps_os_now_us();
    /* At a GiB per second: the rest is time in which the thread did not run. */
    uint64_t most_us = 0;
    uint64_t bytes;
    bool has_more;
    ps_front_close_streak();
    do { /* ends: no other thread frees memory */
        has_more = false;
        bytes = ps_reservoirs_release_step(&has_more);
        most_us += CATCH_UP_STEP_US + (bytes >> 10);
    } while (bytes != 0 || has_more);
    uint64_t end_us = ps_os_now_us();
    next_catch_up_us = end_us + ps_min(end_us - start_us, most_us) * CATCH_UP_SHARE;
}

/* ---- on demand ---- */

PS_COLD void ps_maintenance_reclaim(void) {
    ps_front_scan(true);
    ps_reservoirs_collect(true, true);
    ps_medium_drop_empty(0);
    (void)ps_mapping_expire(UINT64_MAX);
}

void ps_maintenance_flush(void) { ps_front_flush(); }

void ps_maintenance_decay(void) {
    if (ps_engine_has_started()) {
        (void)ps_reservoirs_tick(ps_os_now_ms(), false);
    }
}

bool ps_maintenance_trim(size_t keep_bytes) {
    if (!ps_engine_has_started()) {
        return false; /* no memory to return, and no mode with quarantined memory */
    }
    bool has_unmapped = ps_mapping_expire(UINT64_MAX) != 0;
    ps_front_flush();
    ps_mode.hook.reclaim();
    ps_reservoirs_collect(true, true);
    return ps_reservoirs_release(keep_bytes) || has_unmapped;
}
