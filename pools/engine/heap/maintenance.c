/* SPDX-License-Identifier: MIT */
/*
 * See maintenance.h. Every few slow calls the clock is read, and due work is done.
 */
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/bin_return.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/orphan_purge.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/room.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/surplus.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

#define TICK_CALLS 4 /* slow calls between two readings of the clock */

/* Readings between two checks of the bound on free memory: few spans are freed meanwhile. */
#define SURPLUS_TICKS 7

/* A thread that catches up with the background thread's work does that for at most 1/32 of the
 * time; with a longer purge delay than this, not at all: the user wants memory retained. */
#define CATCH_UP_SHARE 32
#define CATCH_UP_STEP_US 1000 /* of a step that finds little to release, at most */
#define CATCH_UP_DELAY_MS 10000

/* Between two steps of the background thread. The purge has steps for an eighth to a half of the
 * time; a heap that was asked for may be taken when heaps are examined the second time. */
#define BEHIND_MS 2
#define TAKING_MS 2

uint64_t ps_maintenance_x_report_ms = UINT64_MAX;

__attribute__((weak)) void ps_maintenance_report(uint64_t now_ms) { (void)now_ms; }

static void report_if_due(uint64_t now_ms) {
    /* relaxed: the hook decides which thread reports. */
    if (PS_UNLIKELY(now_ms >= ps_load_relaxed(&ps_maintenance_x_report_ms))) {
        ps_maintenance_report(now_ms);
    }
}

/* True when all blocks of the current span are free, those in the window included. */
static bool is_current_drained(const struct ps_heap *heap, uint32_t class_index) {
    const struct ps_bin *bin = &heap->bins[class_index];
    const struct ps_span *span = heap->current[class_index];
    if (span == &ps_span_none) {
        return false;
    }
    /* Not settled: a mode that counts pops would lose those since the last time. */
    size_t used = span->used - (size_t)ps_span_unsettled_blocks(span);
    return used == ps_bin_window_blocks(bin) + ps_span_remote_blocks(span);
}

void ps_heap_drop_drained(struct ps_heap *heap) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (is_current_drained(heap, i)) {
            ps_heap_empty_bin(heap, i);
        }
        struct ps_span *head = heap->available[i];
        struct ps_span *tail = head != NULL ? ps_span_list_tail(head) : NULL;
        if (tail != NULL && tail->used == 0 && !ps_span_is_queued(tail)) {
            ps_room_leave(heap, tail);
            ps_heap_release_span(heap, tail);
        }
    }
}

/* True if another process asks for a trim. request: its number; 0: none. */
static bool is_trim_of(uint32_t request) {
    /* relaxed: acquired with the number. */
    return request != 0 && ps_load_relaxed(&ps_control_page.x_command) == PS_CONTROL_TRIM;
}

/* A step of releasing all free memory that no heap caches. Returns how much went back. */
static uint64_t release_some(void) {
    ps_front_return_shared(true, true);
    ps_store_drop_drained(true);
    ps_medium_drop_empty(0);
    uint64_t bytes = ps_purge_some(UINT64_MAX) << PS_GRANULE_SHIFT;
    bytes += ps_medium_purge_some(UINT64_MAX) << PS_MEDIUM_PAGE_SHIFT;
    return bytes + ps_mapping_expire_some();
}

/* A step of a request of another process (background.h). `has_more`: of what this thread does
 * besides. Returns whether there is more to do. */
static PS_COLD bool serve(uint32_t request, bool has_more) {
    if (ps_load_relaxed(&ps_control_page.x_command) != PS_CONTROL_TRIM) { /* relaxed: acquired */
        ps_control_finish(request, PS_CONTROL_UNKNOWN);
        return false;
    }
    uint64_t bytes = release_some();
    ps_control_add(bytes);
    if (bytes == 0 && !has_more) {
        ps_control_finish(request, PS_CONTROL_DONE);
        return false;
    }
    return true;
}

/* Returns whether the bound of surplus.h applies. Otherwise the background thread releases free
 * memory while the program makes no calls. */
static bool is_bounded(void) {
    /* relaxed: a moment later it may run. */
    return ps_load_relaxed(&ps_control_page.x_background) == PS_BACKGROUND_OFF &&
           ps_background_threads() <= 1;
}

/* Returns blocks that a heap has not used for a while. */
static void return_unused(struct ps_heap *heap) {
    ps_remote_flush(heap);
    ps_heap_take_notices(heap);
    ps_room_scan(heap);
    ps_heap_drop_drained(heap);
}

/* The work of any thread that has read the clock. */
static void do_shared_work(uint64_t now_ms) {
    if (ps_limit_is_on()) {
        ps_limit_tick(now_ms);
    }
    ps_background_note();
    ps_purge_tick(now_ms);
    ps_mapping_expire(now_ms);
    ps_medium_purge_tick(now_ms);
    ps_steal_tick(now_ms);
    ps_mode.hook.tick();
    (void)ps_take_tick(now_ms);
}

/* True if another thread does the periodic work that concerns all. relaxed: a moment later it may.
 */
static bool has_background(void) {
    return ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF;
}

/* Once in a while: what the thread has not used returns, and, if no other thread does it, what
 * no thread has. */
static void scan_fronts(bool is_all) {
    ps_front_scan(is_all);
    if (!has_background()) {
        ps_front_return_shared(is_all, is_all);
        ps_store_drop_drained(true);
    }
}

/* The same if it is due: a second scan at once would find all blocks unused. And a step of the
 * purge of slabs, if no other thread does it. */
static void maintain_fronts(uint64_t now_ms, uint32_t request) {
    struct ps_front_words *words = &ps_front_thread;
    uint64_t early_ms = PS_RETENTION_SCAN_MS - ps_retention_interval_ms(PS_RETENTION_SCAN_MS);
    bool is_trim = is_trim_of(request);
    if (ps_front_is_on && (now_ms + early_ms >= words->next_scan_ms || PS_UNLIKELY(is_trim))) {
        words->next_scan_ms = now_ms + PS_RETENTION_SCAN_MS;
        scan_fronts(is_trim || !ps_retention_is_usual());
    }
    if ((ps_store_purge_is_due(now_ms) || PS_UNLIKELY(is_trim)) && ps_front_is_on &&
        !has_background()) {
        uint64_t bytes = 0;
        (void)ps_store_purge_tick(now_ms, is_trim, &bytes);
    }
}

static PS_NOINLINE void do_due_work(struct ps_heap *heap) {
    uint64_t now_ms = ps_os_now_ms();
    ps_store_relaxed(&heap->x_active_ms, now_ms); /* relaxed: read to judge whether this thread is
                                                   * idle */
    do_shared_work(now_ms);
    bool is_behind = ps_purge_is_behind() || ps_medium_purge_is_behind();
    bool has_bound = is_bounded();
    if (has_bound) {
        ps_heap_take_notices(heap);
    }
    if (has_bound && heap->surplus_countdown-- == 0) {
        bool is_beyond = ps_surplus_tick(now_ms);
        heap->surplus_countdown = is_beyond ? 0 : SURPLUS_TICKS;
        is_behind |= is_beyond;
    }
    heap->tick_countdown = is_behind ? 0 : TICK_CALLS;
    /* Otherwise the background thread serves requests. relaxed: a moment later it may run. */
    bool is_alone = ps_load_relaxed(&ps_control_page.x_background) == PS_BACKGROUND_OFF;
    uint32_t request = is_alone ? ps_control_request() : 0;
    /* Sooner if memory is short. */
    uint64_t early_ms = PS_RETENTION_SCAN_MS - ps_retention_interval_ms(PS_RETENTION_SCAN_MS);
    if (now_ms + early_ms >= heap->next_scan_ms || PS_UNLIKELY(request != 0)) {
        heap->next_scan_ms = now_ms + PS_RETENTION_SCAN_MS;
        return_unused(heap);
    }
    maintain_fronts(now_ms, request);
    if (PS_UNLIKELY(request != 0) && serve(request, false)) {
        heap->tick_countdown = 0;
    }
    if (is_alone) {
        report_if_due(now_ms);
    }
}

void ps_heap_tick_thread(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_heap *heap = ps_front_is_on ? NULL : ps_thread_own();
    uint64_t now_ms = ps_os_now_ms();
    if (heap != NULL) {
        ps_thread_enter();
        ps_heap_tick_now(heap);
        ps_thread_leave();
    } else {
        do_shared_work(now_ms);
    }
    words->is_behind = ps_purge_is_behind() || ps_medium_purge_is_behind();
    if (is_bounded() && heap == NULL && words->surplus_countdown-- == 0) {
        bool is_beyond = ps_surplus_tick(now_ms);
        words->surplus_countdown = is_beyond ? 0 : SURPLUS_TICKS;
        words->is_behind |= is_beyond;
    }
    uint32_t request = has_background() ? 0 : ps_control_request();
    maintain_fronts(now_ms, request);
    if (heap == NULL && !has_background()) {
        if (PS_UNLIKELY(request != 0)) {
            (void)serve(request, false);
        }
        report_if_due(now_ms);
    }
}

void ps_heap_tick_thread_after_free(void) {
    if (is_bounded()) {
        ps_front_thread.surplus_countdown = 0;
        ps_front_tick_now();
    } else {
        ps_front_tick();
    }
}

void ps_heap_tick(struct ps_heap *heap) {
    if (heap->tick_countdown-- == 0) {
        do_due_work(heap);
    }
}

void ps_heap_tick_now(struct ps_heap *heap) {
    heap->tick_countdown = 0;
    ps_heap_tick(heap);
}

void ps_heap_tick_after_free(struct ps_heap *heap) {
    if (is_bounded()) {
        heap->tick_countdown = 0;
        heap->surplus_countdown = 0;
    }
    ps_heap_tick(heap);
}

static uint64_t next_front_scan_ms; /* of the background thread */

uint32_t ps_heap_maintain(uint64_t now_ms) {
    ps_store_relaxed(&ps_room_x_is_shared, 1u); /* relaxed: a hint; the caller takes heaps */
    ps_thread_enter();
    if (ps_limit_is_on()) {
        ps_limit_tick(now_ms);
    }
    ps_purge_tick(now_ms);
    bool is_behind = ps_mapping_expire(now_ms) != 0;
    ps_medium_purge_tick(now_ms);
    ps_steal_tick(now_ms);
    ps_mode.hook.tick();
    bool is_taking = ps_take_tick(now_ms);
    is_behind |= ps_purge_is_behind() || ps_medium_purge_is_behind() || ps_steal_is_behind();
    uint32_t request = ps_control_request();
    uint64_t orphan_bytes = 0;
    bool is_purging = ps_orphan_purge_tick(now_ms, request != 0, &orphan_bytes);
    bool is_trim = is_trim_of(request);
    if (now_ms >= next_front_scan_ms || is_trim) {
        next_front_scan_ms = now_ms + ps_retention_interval_ms(PS_RETENTION_SCAN_MS);
        ps_front_return_shared(is_trim || !ps_retention_is_usual(), true);
        ps_store_drop_drained(true);
    }
    is_purging |= ps_store_purge_tick(now_ms, is_trim, &orphan_bytes);
    is_behind |= is_purging;
    if (PS_UNLIKELY(request != 0)) {
        ps_control_add(orphan_bytes);
        is_behind |= serve(request, is_taking || is_purging);
    }
    ps_thread_leave();
    return is_behind ? BEHIND_MS : is_taking ? TAKING_MS : 0;
}

static uint64_t next_catch_up_us; /* of the only thread */

bool ps_heap_may_catch_up(void) {
    return ps_retention_usual_delay_ms() <= CATCH_UP_DELAY_MS && ps_os_now_us() >= next_catch_up_us;
}

void ps_heap_catch_up(void) {
    ps_front_close_streak();
    uint64_t now_ms = ps_os_now_ms();
    uint64_t start_us = ps_os_now_us();
    uint64_t most_us =
        0; /* at a GiB per second: the rest is time in which the thread did not run */
    uint64_t bytes;
    bool has_more;
    ps_thread_enter();
    do { /* ends: no other thread frees memory */
        bytes = release_some();
        has_more = ps_orphan_purge_tick(now_ms, true, &bytes);
        has_more |= ps_store_purge_tick(now_ms, true, &bytes);
        most_us += CATCH_UP_STEP_US + (bytes >> 10);
    } while (bytes != 0 || has_more);
    ps_thread_leave();
    uint64_t end_us = ps_os_now_us();
    next_catch_up_us = end_us + ps_min(end_us - start_us, most_us) * CATCH_UP_SHARE;
}

/* Collects the returned blocks of spans with room; releases drained ones. */
static void collect_available(struct ps_heap *heap, uint32_t class_index) {
    struct ps_span *span = heap->available[class_index];
    /* Up to the present last span: one that cannot be released yet moves to the end. */
    const struct ps_span *last = span != NULL ? ps_span_list_tail(span) : NULL;
    while (span != NULL) {
        struct ps_span *next = span == last ? NULL : ps_span_list_next(span);
        ps_span_settle(span);
        ps_span_collect(span);
        ps_heap_span_gained(heap, span);
        span = next;
    }
}

PS_COLD void ps_heap_reclaim(void) {
    struct ps_heap *heap = ps_thread_own();
    ps_front_scan(true);
    ps_front_return_shared(true, true);
    ps_store_drop_drained(true);
    if (heap != NULL) {
        return_unused(heap);
    }
    ps_medium_drop_empty(0);
    (void)ps_mapping_expire(UINT64_MAX);
}

/* Within a call: ps_thread_enter. */
static void flush(void) {
    struct ps_heap *heap = ps_engine_has_started() ? ps_heap_recover() : NULL;
    if (heap != NULL) {
        ps_streak_close(heap);
        ps_remote_flush(heap);
        ps_heap_take_all_notices(heap);
        for (uint32_t i = 0; i < ps_size_class_count; i++) {
            ps_heap_empty_bin(heap, i);
            collect_available(heap, i);
        }
        ps_heap_drop_drained(heap);
    }
}

void ps_heap_flush(void) {
    ps_front_flush();
    ps_thread_enter();
    flush();
    ps_thread_leave();
}

void ps_heap_decay(void) {
    if (ps_engine_has_started()) {
        uint64_t now_ms = ps_os_now_ms();
        ps_purge_tick(now_ms);
        (void)ps_mapping_expire(now_ms);
        ps_medium_purge_tick(now_ms);
    }
}

bool ps_heap_trim(size_t keep_bytes) {
    if (!ps_engine_has_started()) {
        return false; /* no memory to return, and no mode with quarantined memory */
    }
    bool has_purged = ps_mapping_expire(UINT64_MAX) != 0;
    /* One call, to the end of what may change this thread's heap: blocks that return to a span
     * whose thread has ended make the span this thread's (remote.c). */
    ps_front_flush();
    ps_front_return_shared(true, true);
    ps_store_drop_drained(true);
    ps_thread_enter();
    flush();
    ps_mode.hook.reclaim();
    ps_steal_all();
    flush(); /* again: notices of ended threads were forwarded to this one */
    ps_thread_leave();
    has_purged |= ps_medium_purge_all();
    has_purged |= ps_orphan_purge_all() != 0;
    has_purged |= ps_store_purge_all() != 0;
    return ps_purge_all(keep_bytes) || has_purged;
}
