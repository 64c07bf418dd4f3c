/* SPDX-License-Identifier: MIT */
/*
 * See layout.h. The numbers are in read-only data that is not touched until a reader reads it; the
 * places need relocations, and are placed with those of other constants.
 */
#include "pools/engine/record/layout.h"

#include "pools/engine/base/config.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/front/store.h"
#include "pools/engine/front/window.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/site.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/extents.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "pools/engine/small/mark.h"
#include "pools/engine/small/size_class.h"

#define FIELD(name, type, member)                                                                  \
    { name, sizeof(((const type *)0)->member), offsetof(type, member) }
#define CONSTANT(name, value)                                                                      \
    { name, 0, value }
#define SIZE(name, type)                                                                           \
    { name, 0, sizeof(type) }

static const struct ps_layout_number numbers[] = {
    CONSTANT("granule.shift", PS_GRANULE_SHIFT),
    CONSTANT("slot.shift", PS_SLOT_SHIFT),

    /* The page map. */
    FIELD("window.end", struct ps_window, x_end),
    FIELD("window.reach", struct ps_window, x_reach),
    FIELD("window.slots_end", struct ps_window, x_slots_end),
    FIELD("map.root", struct ps_page_map, x_root),
    FIELD("map.zero_branch", struct ps_page_map, zero_branch),
    FIELD("map.zero_leaf", struct ps_page_map, zero_leaf),
    FIELD("branch.leaves", struct ps_branch, x_leaves),
    CONSTANT("branch.shift", PS_BRANCH_SHIFT),
    CONSTANT("leaf.shift", PS_LEAF_SHIFT),

    /* Arenas. */
    SIZE("arena", struct ps_page_arena),
    FIELD("arena.base", struct ps_page_arena, base),
    FIELD("arena.granules", struct ps_page_arena, granules),
    FIELD("arena.rest_granules", struct ps_page_arena, rest_granules),

    /* Slots: runs, and the state of their tenants. run.dirty: of run.flags, may be resident. */
    FIELD("run.base", struct ps_slot, run.base),
    FIELD("run.granules", struct ps_slot, run.granules),
    FIELD("run.kind", struct ps_slot, run.kind),
    {"run.flags", 1, offsetof(struct ps_slot, run.kind) + 1},
    CONSTANT("run.dirty", 1),
    FIELD("run.back", struct ps_slot, run.back),
    CONSTANT("kind.none", PS_RUN_NONE),
    CONSTANT("kind.free", PS_RUN_FREE),
    CONSTANT("kind.busy", PS_RUN_BUSY),
    CONSTANT("kind.inside", PS_RUN_INSIDE),
    CONSTANT("kind.block", PS_RUN_BLOCK),
    CONSTANT("kind.mapping", PS_RUN_MAPPING),
    CONSTANT("kind.medium", PS_RUN_MEDIUM),
    CONSTANT("kind.pages", PS_RUN_PAGES),
    CONSTANT("kind.guard", PS_RUN_GUARD),
    CONSTANT("kind.zero", PS_RUN_ZERO),
    CONSTANT("kind.slab", PS_RUN_SLAB),
    FIELD("large.bytes", struct ps_large, bytes),

    FIELD("slab.bits", struct ps_slab, bits),
    FIELD("slab.free_count", struct ps_slab, x_free_count),
    FIELD("slab.fresh", struct ps_slab, fresh),
    FIELD("slab.class", struct ps_slab, class_index),
    FIELD("slab.capacity", struct ps_slab, capacity),

    FIELD("medium.marks", struct ps_medium_granule, x_marks),
    FIELD("medium.free", struct ps_medium_region, free),
    FIELD("medium.free_pages", struct ps_medium_region, free_pages),
    FIELD("medium.dirty_free", struct ps_medium_region, dirty_free),
    CONSTANT("medium.page_shift", PS_MEDIUM_PAGE_SHIFT),
    CONSTANT("medium.waits", PS_MEDIUM_WAITS),

    /* Fronts and windows. */
    SIZE("front", struct ps_front),
    FIELD("front.states", struct ps_front, x_state),
    {"front.entries", sizeof(void *), offsetof(struct ps_front, x_entries)},
    CONSTANT("front.count_mask", PS_FRONT_COUNT),
    CONSTANT("front.takes_shift", PS_FRONT_TAKES_SHIFT),
    CONSTANT("front.lengths", PS_FRONT_LENGTHS),
    SIZE("front_table", struct ps_front_table),
    FIELD("front_table.end", struct ps_front_table, x_end),
    FIELD("front_table.own", struct ps_front_table, x_own),
    FIELD("front_table.fronts", struct ps_front_table, x_fronts),
    SIZE("front_place", struct ps_front_place),
    FIELD("front_place.first", struct ps_front_place, first),
    FIELD("front_place.most", struct ps_front_place, most),
    SIZE("windows", struct ps_windows),
    FIELD("windows.next", struct ps_windows, next_made),
    FIELD("windows.ranges", struct ps_windows, x_ranges),
    FIELD("windows.owner", struct ps_windows, x_owner),
    FIELD("windows.thread", struct ps_windows, x_thread),
    FIELD("windows.allocated", struct ps_windows, bytes.x_allocated),
    FIELD("windows.freed", struct ps_windows, bytes.x_freed),
    FIELD("windows.exact_calls", struct ps_windows, bytes.exact_calls),
    CONSTANT("windows.all_calls", PS_COUNTING_ALL_CALLS),
    FIELD("ended.allocated", struct ps_ended_bytes, x_allocated),
    FIELD("ended.freed", struct ps_ended_bytes, x_freed),
    CONSTANT("range.address_shift", PS_RANGE_COUNT_BITS),
    SIZE("store_counts", struct ps_store_counts),
    FIELD("store_counts.windowed", struct ps_store_counts, x_windowed),
    FIELD("store_counts.singles", struct ps_store_counts, x_singles),

    /* Free granules of partitions. */
    FIELD("extents.dirty", struct ps_extents_counts, x_dirty),
    FIELD("extents.clean", struct ps_extents_counts, x_clean),
    FIELD("extents.reserved", struct ps_extents_counts, x_reserved),

    /* Partitions: chunks of pointers to records. */
    CONSTANT("partition.chunk", PS_PARTITION_CHUNK),
    CONSTANT("partition.none", PS_PARTITION_NONE),
    FIELD("partition.state", struct ps_partition, x_state),
    FIELD("partition.name", struct ps_partition, name),
    FIELD("partition.live_count", struct ps_partition, x_live_count),
    FIELD("partition.live_bytes", struct ps_partition, x_live_bytes),
    FIELD("partition.peak_bytes", struct ps_partition, x_peak_bytes),
    FIELD("partition.limit_bytes", struct ps_partition, x_limit_bytes),
    FIELD("partition.refused_count", struct ps_partition, x_refused_count),
    FIELD("partition.used", struct ps_partition, extents.x_used),

    /* The quarantine of small blocks. */
    FIELD("hard.places", struct ps_hard_table, places),
    FIELD("hard.shards", struct ps_hard_table, x_shards),
    {"hard_shard.held", sizeof(void *), offsetof(struct ps_hard_shard, x_held)},
    SIZE("hard_places", struct ps_hard_places),
    FIELD("hard_places.first", struct ps_hard_places, first),
    FIELD("hard_places.count", struct ps_hard_places, count),

    SIZE("class", struct ps_size_class),
    FIELD("class.block_bytes", struct ps_size_class, block_bytes),
    FIELD("class.first", struct ps_size_class, first),
    FIELD("class.limit", struct ps_size_class, limit),

    /* Counts. */
    FIELD("mappings.live_count", struct ps_mapping_counts, live_count),
    FIELD("mappings.live_bytes", struct ps_mapping_counts, live_bytes),
    FIELD("mappings.cached_count", struct ps_mapping_counts, cached_count),
    FIELD("mappings.cached_bytes", struct ps_mapping_counts, cached_bytes),
    CONSTANT("limit.percent", PS_LIMIT_PERCENT),
    FIELD("profile.sample_count", struct ps_profile_counts, sample_count),
    FIELD("profile.medium_count", struct ps_profile_counts, medium_count),
    FIELD("profile.medium_bytes", struct ps_profile_counts, medium_bytes),
    FIELD("profile.live_bytes", struct ps_profile_counts, live_bytes),
    FIELD("profile.period_number", struct ps_profile_counts, period_number),
    FIELD("profile.peak_number", struct ps_profile_counts, peak_number),
    FIELD("profile.lost_stacks", struct ps_profile_counts, lost_stack_count),
    FIELD("profile.lost_blocks", struct ps_profile_counts, lost_block_count),
    CONSTANT("harden.check_blocks", PS_HARDEN_CHECK_BLOCKS),

    /* The table of the profile. weight.one: of a sample that represents one block. */
    FIELD("table.base", struct ps_table_memory, base),
    FIELD("table.buckets", struct ps_table_memory, bucket_count),
    FIELD("table.used_end", struct ps_table_memory, x_used_end),
    FIELD("sample.block", struct ps_sample, block),
    FIELD("sample.bytes", struct ps_sample, bytes),
    FIELD("sample.requested", struct ps_sample, requested_bytes),
    FIELD("sample.weight", struct ps_sample, weight),
    FIELD("sample.slab", struct ps_sample, slab),
    FIELD("sample.stack", struct ps_sample, stack),
    FIELD("sample.chain", struct ps_sample, chain),
    FIELD("sample.is_medium", struct ps_sample, is_medium),
    FIELD("sample.number", struct ps_sample, number),
    SIZE("sample", struct ps_sample),
    FIELD("stack.made_bytes", struct ps_profile_stack, x_sums.made_bytes),
    FIELD("stack.made_weight", struct ps_profile_stack, x_sums.made_weight),
    FIELD("stack.period_weight", struct ps_profile_stack, x_period.live_weight),
    FIELD("stack.period_bytes", struct ps_profile_stack, x_period.live_bytes),
    FIELD("stack.period_number", struct ps_profile_stack, x_period.number),
    FIELD("stack.peak_weight", struct ps_profile_stack, x_peak.live_weight),
    FIELD("stack.peak_bytes", struct ps_profile_stack, x_peak.live_bytes),
    FIELD("stack.peak_number", struct ps_profile_stack, x_peak.number),
    FIELD("stack.chain", struct ps_profile_stack, chain),
    FIELD("stack.count", struct ps_profile_stack, count),
    {"stack.sites", sizeof(uintptr_t), offsetof(struct ps_profile_stack, sites)},
    CONSTANT("line.site", PS_PROFILE_LINE_SITE),
    CONSTANT("line.limit", PS_PROFILE_LINE_LIMIT),
    FIELD("line.number", struct ps_line_record, number),
    FIELD("line.file_bytes", struct ps_line_record, file_bytes),
    FIELD("line.function_bytes", struct ps_line_record, function_bytes),
    {"line.text", 1, offsetof(struct ps_line_record, text)},
    CONSTANT("weight.one", PS_DRAW_WEIGHT_ONE),
    FIELD("table.sequence", struct ps_table_memory, x_sequence),
    CONSTANT("demand.file", PS_DEMAND_FILE),
    CONSTANT("demand.reader", PS_DEMAND_READER),
    CONSTANT("demand.beat_ms", PS_DEMAND_BEAT_MS),
    FIELD("profile.interval", struct ps_profile_settings, x_interval_bytes),
    FIELD("control.background", struct ps_control, x_background),
};

#define PLACE(name, variable)                                                                      \
    { name, &(variable), sizeof(variable) }

const struct ps_layout poolshim_layout = {
    .magic = PS_LAYOUT_MAGIC,
    .version = PS_LAYOUT_VERSION,
    .bytes = sizeof(struct ps_layout),
    .place_count = PS_LAYOUT_PLACES,
    .number_count = sizeof numbers / sizeof numbers[0],
    .numbers = numbers,
    .places =
        {
#define PS_FIGURE(...)
#define PS_FIGURE_IF(...)
#define PS_WORD(section, key, unit, name, word, metric, label, help) PLACE(#name, word),
#include "pools/engine/record/figures.def"
            PLACE("window", ps_window),
            PLACE("map", ps_page_map),
            {"arenas", ps_page_arenas, 0},
            PLACE("arena_count", ps_page_arena_x_count),
            PLACE("fronts", ps_front_table.x_fronts),
            PLACE("own_front", ps_front_table.x_own),
            PLACE("apart_fronts", ps_front_apart),
            PLACE("part_fronts", ps_front_parts),
            PLACE("apart_end", ps_front_x_apart_end),
            PLACE("front_places", ps_front_table.places),
            PLACE("front_rounding", ps_front_x_rounding),
            PLACE("medium_singles", ps_front_x_medium_singles),
            PLACE("windows", ps_windows_x_made),
            PLACE("ended", ps_windows_x_ended),
            PLACE("store_counts", ps_store_x_counts),
            PLACE("classes", ps_size_classes),
            PLACE("class_count", ps_size_class_count),
            PLACE("class_all_count", ps_size_class_all_count),
            PLACE("extents", ps_extents_x_counts),
            PLACE("partitions", ps_partition_x_chunks),
            PLACE("partition_end", ps_partition_x_end),
            PLACE("mappings", ps_mapping_x_counts),
            PLACE("limit_source", ps_limit_x_counts.source),
            PLACE("swing_bytes", ps_retention_x_kept_bytes),
            PLACE("profile", ps_profile_x_counts),
            PLACE("large_allocs", ps_large_x_allocs),
            PLACE("hard_level", ps_hard_level),
            PLACE("hard", ps_hard_table),
            PLACE("mark_salt", ps_mark_salt),
            PLACE("profile_settings", ps_profile_settings),
            PLACE("table", ps_table_memory),
            PLACE("lost_stack", ps_table_x_lost),
            PLACE("demand", ps_demand_x_set),
            PLACE("demand_epoch", ps_demand_x_epoch),
            PLACE("demand_interval", ps_demand_x_interval_bytes),
            PLACE("control", ps_control_page),
            PLACE("set.cache-max", ps_mapping_x_cache_max_bytes),
            PLACE("set.limit", ps_limit_words.x_setting),
            PLACE("set.purge-delay-ms", ps_retention_x_delay_ms),
            PLACE("set.thread-bytes", ps_counting_x_wanted),
            PLACE("set.sample-interval", ps_demand_x_request.x_interval_bytes),
            PLACE("set.sample-beat", ps_demand_x_request.x_beat),
        },
};
