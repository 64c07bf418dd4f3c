/* SPDX-License-Identifier: MIT */
/*
 * See reservoirs.h. No locks of its own.
 */
#include "pools/engine/heap/reservoirs.h"

#include "pools/engine/front/store.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/extents.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/purge.h"

struct reservoir {
    /* A step of releasing what is due. Returns whether more is due. */
    bool (*tick)(uint64_t now_ms);

    /* A step of releasing all. Returns the bytes; sets *has_more if more may be left. */
    uint64_t (*release_step)(bool *has_more);

    /* Releases all except about keep_bytes. Returns whether it released any. */
    bool (*release)(size_t keep_bytes);

    bool is_for_driver; /* ticks of one thread suffice */
};

/* ---- holes in slabs, and free granules of partitions ---- */

static bool tick_slabs(uint64_t now_ms) {
    uint64_t bytes = 0;
    if (ps_store_purge_is_due(now_ms)) {
        (void)ps_store_purge_tick(now_ms, false, &bytes);
    }
    return PS_UNLIKELY(ps_extents_have_dirty()) && ps_extents_purge_tick(now_ms, false, &bytes);
}

static uint64_t release_step_of_slabs(bool *has_more) {
    uint64_t bytes = 0;
    *has_more |= ps_store_purge_tick(ps_os_now_ms(), true, &bytes);
    *has_more |= ps_extents_purge_tick(ps_os_now_ms(), true, &bytes);
    return bytes;
}

static bool release_slabs(size_t keep_bytes) {
    (void)keep_bytes;
    uint64_t bytes = ps_store_purge_all();
    while (ps_extents_purge_tick(ps_os_now_ms(), true, &bytes)) { /* ends: at the last extent */
    }
    return bytes != 0;
}

/* ---- free pages of regions of medium blocks ---- */

static bool tick_regions(uint64_t now_ms) {
    ps_medium_purge_tick(now_ms);
    return ps_medium_purge_is_behind();
}

static uint64_t release_step_of_regions(bool *has_more) {
    (void)has_more;
    ps_medium_drop_empty(0);
    return ps_medium_purge_some(UINT64_MAX) << PS_MEDIUM_PAGE_SHIFT;
}

static bool release_regions(size_t keep_bytes) {
    (void)keep_bytes;
    return ps_medium_purge_all();
}

/* ---- cached mappings ---- */

static bool tick_mappings(uint64_t now_ms) { return ps_mapping_expire(now_ms) != 0; }

static uint64_t release_step_of_mappings(bool *has_more) {
    (void)has_more;
    return ps_mapping_expire_some();
}

static bool release_mappings(size_t keep_bytes) {
    (void)keep_bytes;
    return ps_mapping_expire(UINT64_MAX) != 0;
}

/* ---- free runs of the page cache ---- */

static bool tick_runs(uint64_t now_ms) {
    ps_purge_tick(now_ms);
    return ps_purge_is_behind();
}

static uint64_t release_step_of_runs(bool *has_more) {
    (void)has_more;
    return ps_purge_some(UINT64_MAX) << PS_GRANULE_SHIFT;
}

/* ---- all of them ---- */

static const struct reservoir reservoirs[] = {
    {tick_slabs, release_step_of_slabs, release_slabs, .is_for_driver = true},
    {tick_regions, release_step_of_regions, release_regions, .is_for_driver = false},
    {tick_mappings, release_step_of_mappings, release_mappings, .is_for_driver = false},
    {tick_runs, release_step_of_runs, ps_purge_all, .is_for_driver = false},
};

#define RESERVOIRS (sizeof reservoirs / sizeof *reservoirs)

bool ps_reservoirs_tick(uint64_t now_ms, bool is_driver) {
    bool has_more = false;
    for (size_t i = 0; i < RESERVOIRS; i++) {
        if (is_driver || !reservoirs[i].is_for_driver) {
            has_more |= reservoirs[i].tick(now_ms);
        }
    }
    return has_more;
}

void ps_reservoirs_collect(bool is_all, bool may_sleep) {
    ps_front_return_shared(is_all, may_sleep);
    ps_store_drop_drained(true);
}

uint64_t ps_reservoirs_release_step(bool *has_more) {
    uint64_t bytes = 0;
    ps_reservoirs_collect(true, true);
    for (size_t i = 0; i < RESERVOIRS; i++) {
        bytes += reservoirs[i].release_step(has_more);
    }
    return bytes;
}

bool ps_reservoirs_release(size_t keep_bytes) {
    bool has_released = false;
    for (size_t i = 0; i < RESERVOIRS; i++) {
        has_released |= reservoirs[i].release(keep_bytes);
    }
    return has_released;
}
