/* SPDX-License-Identifier: MIT */
/*
 * Statistics of slot maps, and a walk that checks them. See slots.h. No locks.
 */
#include "pools/slots/slots.h"

#include <string.h>

static const struct ps_chunks *growth_of(const struct ps_slots *slots) {
    return (const struct ps_chunks *)(const void *)slots->growth;
}

void ps_slots_stats(const struct ps_slots *slots, struct ps_slots_stats *stats) {
    const struct ps_chunks *growth = growth_of(slots);
    *stats = (struct ps_slots_stats){
        .name = growth->name,
        .size_bytes = slots->size_bytes,
        .stride_bytes = slots->stride,
        .used_count = slots->live_count,
        .free_count = ps_slots_room(slots),
        .used_up_count = slots->used_up_count,
        .position_count = slots_touched(slots),
        .chunk_count = growth->chunk_count,
        .total_bytes = growth->total_bytes,
        .max_items = slots->live_max == SIZE_MAX ? 0 : slots->live_max,
    };
}

struct walk {
    size_t live;
    size_t free;
    size_t used_up;
};

/* Adds what a position is; false: stamp and bit disagree. */
static bool count_position(const struct ps_slots *slots, size_t position, struct walk *walk) {
    char *chunk = slots->directory[position >> slots->shift];
    size_t index = position & slots->index_mask;
    bool is_live = (slots_bits(slots, chunk)[index >> 6] >> (index & 63) & 1) != 0;
    uint64_t stamp = *ps_slots_stamp(slots_place(slots, position));
    bool is_free = (stamp & PS_SLOTS_FREE) != 0;
    bool is_used_up = is_free && slots_generation_of(slots, stamp) == 0;
    walk->live += is_live;
    walk->used_up += is_used_up;
    walk->free += is_free && !is_used_up;
    bool is_own = (stamp & slots->position_mask) == position;
    bool is_valid = is_live ? is_own && slots_generation_of(slots, stamp) != 0 : is_free;
    return is_valid && is_live != is_free &&
           (!is_used_up || stamp == (PS_SLOTS_FREE | slots->position_mask));
}

/* Length of the list of free places; SIZE_MAX: it leads elsewhere. */
static size_t list_length(const struct ps_slots *slots, size_t length_max) {
    uint64_t position = slots_is_debug(slots) ? slots->kept : slots->free;
    size_t length = 0;
    for (; position != slots->position_mask; length++) {
        if (length > length_max || position >= slots_touched(slots) ||
            slots->directory[position >> slots->shift] == NULL) {
            return SIZE_MAX;
        }
        uint64_t stamp = *ps_slots_stamp(slots_place(slots, (size_t)position));
        if ((stamp & PS_SLOTS_FREE) == 0) {
            return SIZE_MAX;
        }
        position = stamp & slots->position_mask;
    }
    return length;
}

bool ps_slots_check(const struct ps_slots *slots) {
    struct walk walk = {0};
    size_t absent = 0;
    for (size_t index = 0; index < slots->chunk_count; index++) {
        if (slots->directory[index] == NULL) {
            absent++;
            continue;
        }
        size_t first = index << slots->shift;
        size_t limit = ps_min(first + slots_per_chunk(slots), slots_touched(slots));
        for (size_t position = first; position < limit; position++) {
            if (!count_position(slots, position, &walk)) {
                return false;
            }
        }
    }
    return absent == slots->absent_count && walk.live == slots->live_count &&
           walk.used_up == slots->used_up_count && walk.free == list_length(slots, walk.free);
}
