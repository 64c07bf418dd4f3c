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
#include "pools/engine/harden/tagged.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/partition_path.h"
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

const struct ps_mode_entry ps_mode_entries[PS_MODE_COUNT] = {
    [PS_MODE_PLAIN] = {.alloc = ps_front_alloc_plain,
                       .zalloc = ps_front_zalloc_plain,
                       .alloc_aligned = ps_front_alloc_aligned_plain,
                       .alloc_in = ps_partition_alloc_plain,
                       .free_block = ps_front_free_plain,
                       .resize = ps_profile_resize,
                       .usable = ps_front_usable_plain,
                       .resize_in_place = ps_profile_resize_in_place},
    [PS_MODE_SAMPLED] = {.alloc = ps_guard_alloc,
                         .zalloc = ps_guard_zalloc,
                         .alloc_aligned = ps_front_alloc_aligned_plain,
                         .alloc_in = ps_partition_alloc_plain,
                         .free_block = ps_front_free_plain,
                         .resize = ps_front_resize_plain,
                         .usable = ps_front_usable_plain,
                         .resize_in_place = ps_front_resize_in_place},
    [PS_MODE_ZEROED] = {.alloc = ps_level_1_alloc,
                        .zalloc = ps_level_1_zalloc,
                        .alloc_aligned = ps_level_1_alloc_aligned,
                        .alloc_in = ps_partition_alloc_plain,
                        .free_block = ps_level_1_free,
                        .resize = ps_level_1_resize,
                        .usable = ps_front_usable_plain,
                        .resize_in_place = ps_resize_refused},
    [PS_MODE_HARDENED] = {.alloc = ps_hard_malloc,
                          .zalloc = ps_level_2_zalloc,
                          .alloc_aligned = ps_level_2_alloc_aligned,
                          .alloc_in = ps_level_2_alloc_in,
                          .free_block = ps_hard_free,
                          .resize = ps_level_2_resize,
                          .usable = ps_level_2_usable,
                          .resize_in_place = ps_resize_refused},
    [PS_MODE_TAGGED] = {.alloc = ps_tagged_alloc,
                        .zalloc = ps_tagged_zalloc,
                        .alloc_aligned = ps_tagged_alloc_aligned,
                        .alloc_in = ps_tagged_alloc_in,
                        .free_block = ps_tagged_free,
                        .resize = ps_tagged_resize,
                        .usable = ps_tagged_usable,
                        .resize_in_place = ps_resize_refused},
    [PS_MODE_RECORDED] = {.alloc = ps_record_alloc,
                          .zalloc = ps_record_zalloc,
                          .alloc_aligned = ps_record_alloc_aligned,
                          .alloc_in = ps_record_alloc_in,
                          .free_block = ps_record_free,
                          .resize = ps_record_resize,
                          .usable = ps_front_usable_plain,
                          .resize_in_place = ps_resize_refused},
    [PS_MODE_TRACED] = {.alloc = ps_trace_alloc,
                        .zalloc = ps_trace_zalloc,
                        .alloc_aligned = ps_trace_alloc_aligned,
                        .alloc_in = ps_trace_alloc_in,
                        .free_block = ps_trace_free,
                        .resize = ps_trace_resize,
                        .usable = ps_front_usable_plain,
                        .resize_in_place = ps_resize_refused},
};

const struct ps_mode_hook ps_mode_hooks[PS_MODE_COUNT] = {
    [PS_MODE_PLAIN] = {.has_fast_alloc = true,
                       .has_fast_free = true,
                       .start = ps_profile_start,
                       .count_bytes = ps_profile_count_bytes,
                       .sample = ps_profile_sample_class,
                       .sample_large = ps_profile_sample_large,
                       .end_sample = ps_profile_end_sample,
                       .release_run = ps_large_give_run,
                       .reclaim = ps_maintenance_reclaim,
                       .alloc_apart = ps_partition_alloc,
                       .free_apart = ps_partition_free_small,
                       .stray_free = ps_profile_stray_free,
                       .stray_usable = ps_profile_stray_usable,
                       .tick = ps_demand_tick,
                       .fork_child = ps_profile_fork_child},
    [PS_MODE_SAMPLED] = {.has_fast_alloc = true,
                         .has_fast_free = true,
                         .start = start_sampled,
                         .count_bytes = ps_guard_count_bytes,
                         .sample = ps_guard_sample_class,
                         .release_run = ps_large_give_run,
                         .reclaim = ps_maintenance_reclaim,
                         .alloc_apart = ps_partition_alloc,
                         .free_apart = ps_partition_free_small,
                         .stray_free = ps_stray_free,
                         .stray_usable = ps_stray_usable,
                         .tick = ps_mode_ignores_tick,
                         .fork_child = ps_guard_fork_child},
    [PS_MODE_ZEROED] = {.has_fast_alloc = true,
                        .has_fast_free = false,
                        .start = ps_level_1_start,
                        .count_bytes = ps_guard_count_bytes,
                        .sample = ps_guard_sample_class,
                        .release_run = ps_level_1_release_run,
                        .reclaim = ps_level_1_reclaim,
                        .alloc_apart = ps_partition_alloc,
                        .free_apart = ps_partition_free_small,
                        .end_partition = ps_level_1_end_partition,
                        .stray_free = ps_stray_free,
                        .stray_usable = ps_stray_usable,
                        .tick = ps_mode_ignores_tick,
                        .fork_child = ps_level_1_fork_child},
    [PS_MODE_HARDENED] = {.has_fast_alloc = false,
                          .has_fast_free = false,
                          .start = ps_level_2_start,
                          .count_bytes = ps_guard_count_bytes,
                          .release_run = ps_hard_large_hold,
                          .reclaim = ps_level_2_reclaim,
                          .alloc_apart = ps_partition_alloc,
                          .free_apart = ps_partition_free_small,
                          .end_partition = ps_level_2_end_partition,
                          .fork_blocks = ps_hard_fork_blocks,
                          .stray_free = ps_stray_free,
                          .stray_usable = ps_stray_usable,
                          .tick = ps_mode_ignores_tick,
                          .fork_child = ps_level_1_fork_child},
    [PS_MODE_TAGGED] = {.has_fast_alloc = false,
                        .has_fast_free = false,
                        .start = ps_tagged_start,
                        .release_run = ps_hard_large_hold,
                        .reclaim = ps_level_1_reclaim,
                        .alloc_apart = ps_partition_alloc,
                        .free_apart = ps_partition_free_small,
                        .end_partition = ps_level_1_end_partition,
                        .stray_free = ps_stray_free,
                        .stray_usable = ps_stray_usable,
                        .tick = ps_mode_ignores_tick,
                        .fork_child = ps_level_1_fork_child},
    [PS_MODE_RECORDED] = {.has_fast_alloc = false,
                          .has_fast_free = false,
                          .start = ps_record_start,
                          .release_run = ps_large_give_run,
                          .reclaim = ps_maintenance_reclaim,
                          .alloc_apart = ps_partition_alloc,
                          .free_apart = ps_partition_free_small,
                          .stray_free = ps_stray_free,
                          .stray_usable = ps_stray_usable,
                          .tick = ps_mode_ignores_tick,
                          .fork_child = ps_record_fork_child},
    [PS_MODE_TRACED] = {.has_fast_alloc = false,
                        .has_fast_free = false,
                        .start = ps_trace_start,
                        .release_run = ps_large_give_run,
                        .reclaim = ps_maintenance_reclaim,
                        .alloc_apart = ps_partition_alloc,
                        .free_apart = ps_partition_free_small,
                        .stray_free = ps_stray_free,
                        .stray_usable = ps_stray_usable,
                        .tick = ps_mode_ignores_tick,
                        .fork_child = ps_trace_fork_child},
};
