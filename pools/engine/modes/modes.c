/* SPDX-License-Identifier: MIT */
/*
 * The tables of all modes: see mode.h, which declares them. The only file that knows every mode;
 * the core calls these functions, through its copy of a row, and no other function of the layers
 * above it. Constant: the loader makes the tables read-only after relocation.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/level.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/record/record.h"
#include "pools/engine/record/record_peak.h"
#include "pools/engine/record/trace.h"

static bool start_sampled(const struct ps_config *config) {
    ps_stray_start(config);
    ps_guard_start(config);
    return true;
}

static void reclaim_hardened(void) {
    ps_hard_large_flush();
    ps_heap_reclaim();
}

const struct ps_mode_entry ps_mode_entries[PS_MODE_COUNT] = {
    [PS_MODE_PLAIN] = {ps_plain_alloc, ps_plain_zalloc, ps_plain_alloc_aligned, ps_plain_free,
                       ps_plain_resize, ps_plain_usable},
    [PS_MODE_SAMPLED] = {ps_plain_alloc, ps_plain_zalloc, ps_plain_alloc_aligned, ps_plain_free,
                         ps_plain_resize, ps_plain_usable},
    [PS_MODE_ZEROED] = {ps_plain_alloc, ps_plain_zalloc, ps_level_1_alloc_aligned, ps_level_1_free,
                        ps_level_1_resize, ps_plain_usable},
    [PS_MODE_HARDENED] = {ps_hard_malloc, ps_level_2_zalloc, ps_level_2_alloc_aligned, ps_hard_free,
                          ps_level_2_resize, ps_level_2_usable},
    [PS_MODE_RECORDED] = {ps_record_alloc, ps_record_zalloc, ps_record_alloc_aligned,
                          ps_record_free, ps_record_resize, ps_plain_usable},
    [PS_MODE_TRACED] = {ps_trace_alloc, ps_trace_zalloc, ps_trace_alloc_aligned, ps_trace_free,
                        ps_trace_resize, ps_plain_usable},
};

const struct ps_mode_front ps_mode_fronts[PS_MODE_COUNT] = {
    [PS_MODE_PLAIN] = {.resize = ps_profile_resize},
    [PS_MODE_SAMPLED] = {.alloc = ps_guard_alloc, .zalloc = ps_guard_zalloc},
};

const struct ps_mode_hook ps_mode_hooks[PS_MODE_COUNT] = {
    [PS_MODE_PLAIN] = {.has_fast_alloc = true,
                       .has_fast_free = true,
                       .has_fronts = true,
                       .start = ps_profile_start,
                       .make_state = ps_mode_makes_no_state,
                       .thread_start = ps_mode_ignores_heap,
                       .thread_end = ps_mode_ignores_heap,
                       .refill = ps_plain_refill,
                       .take = ps_plain_take,
                       .count_bytes = ps_profile_count_bytes,
                       .sample = ps_profile_sample_class,
                       .sample_large = ps_profile_sample_large,
                       .end_sample = ps_profile_end_sample,
                       .count_pops = NULL,
                       .may_open_streak = NULL,
                       .return_streak = ps_plain_return_streak,
                       .flush_class = ps_mode_ignores_class,
                       .release_run = ps_page_cache_give,
                       .reclaim = ps_heap_reclaim,
                       .stray_free = ps_profile_stray_free,
                       .stray_usable = ps_profile_stray_usable,
                       .tick = ps_demand_tick,
                       .fork_child = ps_profile_fork_child},
    [PS_MODE_SAMPLED] = {.has_fast_alloc = true,
                         .has_fast_free = true,
                         .has_fronts = true,
                         .start = start_sampled,
                         .make_state = ps_mode_makes_no_state,
                         .thread_start = ps_mode_ignores_heap,
                         .thread_end = ps_mode_ignores_heap,
                         .refill = ps_plain_refill,
                         .take = ps_plain_take,
                         .count_bytes = ps_guard_count_bytes,
                         .sample = ps_guard_sample_class,
                         .count_pops = NULL,
                         .may_open_streak = NULL,
                         .return_streak = ps_plain_return_streak,
                         .flush_class = ps_mode_ignores_class,
                         .release_run = ps_page_cache_give,
                         .reclaim = ps_heap_reclaim,
                         .stray_free = ps_stray_free,
                         .stray_usable = ps_stray_usable,
                         .tick = ps_mode_ignores_tick,
                         .fork_child = ps_guard_fork_child},
    [PS_MODE_ZEROED] = {.has_fast_alloc = true,
                        .has_fast_free = false,
                        .start = ps_level_1_start,
                        .make_state = ps_mode_makes_no_state,
                        .thread_start = ps_mode_ignores_heap,
                        .thread_end = ps_mode_ignores_heap,
                        .refill = ps_level_1_refill,
                        .take = ps_plain_take,
                        .count_pops = ps_guard_count_pops,
                        .may_open_streak = ps_level_1_may_open_streak,
                        .return_streak = ps_level_1_return_streak,
                        .flush_class = ps_mode_ignores_class,
                        .release_run = ps_level_1_release_run,
                        .reclaim = reclaim_hardened,
                        .stray_free = ps_stray_free,
                        .stray_usable = ps_stray_usable,
                        .tick = ps_mode_ignores_tick,
                        .fork_child = ps_level_1_fork_child},
    [PS_MODE_HARDENED] = {.has_fast_alloc = false,
                          .has_fast_free = false,
                          .refills_by_class = true,
                          .start = ps_level_2_start,
                          .make_state = ps_level_2_make_state,
                          .thread_start = ps_mode_ignores_heap,
                          .thread_end = ps_hard_flush_all,
                          .refill = ps_level_1_refill,
                          .take = ps_hard_take,
                          .count_pops = ps_guard_count_pops,
                          .may_open_streak = NULL,
                          .return_streak = ps_plain_return_streak,
                          .flush_class = ps_hard_flush,
                          .release_run = ps_hard_large_hold,
                          .reclaim = reclaim_hardened,
                          .stray_free = ps_stray_free,
                          .stray_usable = ps_stray_usable,
                          .tick = ps_mode_ignores_tick,
                          .fork_child = ps_level_1_fork_child},
    [PS_MODE_RECORDED] = {.has_fast_alloc = false,
                          .has_fast_free = false,
                          .keeps_heaps = true,
                          .start = ps_record_start,
                          .make_state = ps_record_make_state,
                          .thread_start = ps_record_begin,
                          .thread_end = ps_record_end,
                          .refill = ps_plain_refill,
                          .take = ps_plain_take,
                          .count_pops = NULL,
                          .may_open_streak = NULL,
                          .return_streak = ps_plain_return_streak,
                          .flush_class = ps_mode_ignores_class,
                          .release_run = ps_page_cache_give,
                          .reclaim = ps_heap_reclaim,
                          .stray_free = ps_stray_free,
                          .stray_usable = ps_stray_usable,
                          .tick = ps_mode_ignores_tick,
                          .fork_child = ps_record_fork_child},
    [PS_MODE_TRACED] = {.has_fast_alloc = false,
                        .has_fast_free = false,
                        .keeps_heaps = true,
                        .start = ps_trace_start,
                        .make_state = ps_record_make_state,
                        .thread_start = ps_record_begin,
                        .thread_end = ps_record_end,
                        .refill = ps_plain_refill,
                        .take = ps_plain_take,
                        .count_pops = NULL,
                        .may_open_streak = NULL,
                        .return_streak = ps_plain_return_streak,
                        .flush_class = ps_mode_ignores_class,
                        .release_run = ps_page_cache_give,
                        .reclaim = ps_heap_reclaim,
                        .stray_free = ps_stray_free,
                        .stray_usable = ps_stray_usable,
                        .tick = ps_mode_ignores_tick,
                        .fork_child = ps_trace_fork_child},
};
