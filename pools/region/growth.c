/* SPDX-License-Identifier: MIT */
/*
 * Regions: options that may change while they live, the room that is left, and blocks with a report
 * on whether they begin a chunk. Callers: users.
 */
#include "pools/region/region.h"

void ps_region_set_growth(struct ps_region *public, size_t next_bytes, size_t max_bytes) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    ps_chunks_set_growth(&region->chunks, next_bytes, max_bytes);
    ps_region_clamp_lengths(&region->chunks);
}

void ps_region_set_retain(struct ps_region *public, size_t retain_bytes) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    region->retain_bytes = retain_bytes != 0 ? retain_bytes : PS_REGION_RETAIN_BYTES;
    ps_region_trim_to(public, region->retain_bytes);
}

size_t ps_region_capacity_left(const struct ps_region *public) {
    const struct ps_region_state *region = ps_region_const_state(public);
    size_t room = (size_t)(region->chunk->end - region->hot.at);
    if (ps_region_has_canaries(region)) {
        return room - ps_min(room, PS_CANARY_COST);
    }
    return region->is_malloc ? 0 : room;
}

void *ps_region_alloc_reporting(struct ps_region *public, size_t bytes, size_t align,
                                bool *starts_chunk) {
    const struct ps_region_state *region = ps_region_state(public);
    const struct ps_region_chunk *chunk = region->chunk;
    const struct ps_region_large *large = region->large;
    void *block = ps_region_alloc_aligned(public, bytes, align);
    *starts_chunk = block != NULL && (region->chunk != chunk || region->large != large);
    return block;
}
