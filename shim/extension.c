/* SPDX-License-Identifier: MIT */
/*
 * poolshim_stats_read, poolshim_peak_begin and poolshim_purge; their contract is in the public
 * header. No locks; the census takes the engine's.
 */
#include "pools/include/poolshim/poolshim.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/record/census.h"

#include <errno.h>
#include <string.h>

static void read_stats(struct poolshim_stats *out) {
    struct ps_census census;
    struct ps_profile_counts sampled;
    ps_census_take(&census);
    ps_profile_count(&sampled);
    uint64_t small_count = 0;
    for (uint32_t i = 0; i < census.class_count; i++) {
        small_count += census.classes[i].live_blocks;
    }
    *out = (struct poolshim_stats){
        .bytes = sizeof *out,
        .live_bytes = census.small_live_bytes + census.run_live_bytes + census.map_live_bytes +
                      census.guard_live_bytes,
        .live_count =
            small_count + census.run_live_count + census.map_live_count + census.guard_live_count,
        .small_live_bytes = census.small_live_bytes,
        .small_live_count = small_count,
        .run_live_bytes = census.run_live_bytes,
        .run_live_count = census.run_live_count,
        .large_live_bytes = census.map_live_bytes,
        .large_live_count = census.map_live_count,
        .small_slab_bytes = census.small_slab_bytes,
        .run_cached_bytes = census.run_cached_bytes,
        .large_cached_bytes = census.map_cached_bytes,
        .free_dirty_bytes = census.cache_dirty_bytes,
        .free_clean_bytes = census.cache_clean_bytes,
        .metadata_bytes = census.metadata_bytes,
        .pools_bytes = census.pages_bytes,
        .mapped_bytes = census.mapped_bytes,
        .purge_count = census.purge_count,
        .purged_bytes = census.purged_bytes,
        .thread_count = ps_background_threads(),
        .limit_bytes = census.limit_bytes,
        .limit_near_count = census.limit_near_count,
        .sampled_peak_bytes = sampled.peak_bytes,
    };
}

int poolshim_stats_read(struct poolshim_stats *stats, size_t bytes) {
    struct poolshim_stats known;
    int saved_errno = errno;
    if (stats == NULL || bytes < sizeof stats->bytes) {
        errno = EINVAL;
        return -1;
    }
    read_stats(&known);
    known.bytes = bytes < sizeof known ? bytes : sizeof known;
    memset(stats, 0, bytes);
    memcpy(stats, &known, known.bytes);
    errno = saved_errno;
    return 0;
}

int poolshim_peak_begin(void) {
    if (!ps_demand_has_begun()) {
        errno = ENOTSUP;
        return -1;
    }
    ps_profile_begin_period();
    return 0;
}

size_t poolshim_purge(size_t keep_bytes) {
    struct ps_purge_counts before;
    struct ps_purge_counts after;
    int saved_errno = errno;
    ps_purge_read(&before);
    (void)ps_maintenance_trim(keep_bytes);
    ps_purge_read(&after);
    errno = saved_errno;
    return (size_t)(after.bytes - before.bytes);
}
