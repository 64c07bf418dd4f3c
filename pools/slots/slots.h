/* SPDX-License-Identifier: MIT */
/*
 * Slot maps, within. A chunk has places, and after them a bit for each; a place is a stamp of 8
 * bytes and an object. Included by pools/slots/: slots.c calls chunks.c. No locks: one thread at a
 * time, as the header says.
 *
 * The stamp of a position:
 *
 *   live       its handle: generation << position_bits | position. Generations begin at 1
 *   free       PS_SLOTS_FREE | the next generation | position of the next free place, or none
 *   used up    PS_SLOTS_FREE | none
 *
 * Since a handle has its own position and no PS_SLOTS_FREE, one comparison tells live from stale.
 * Links are positions beside the objects: a write to a removed object cannot damage the list.
 *
 *   live + free + used_up == touched - positions of absent chunks
 *   touched <= chunk_count << shift; the places above have memory, but no stamp and no bit
 */
#ifndef PS_SLOTS_SLOTS_H
#define PS_SLOTS_SLOTS_H

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/slots.h>

static inline struct ps_chunks *slots_growth(struct ps_slots *slots) {
    _Static_assert(sizeof(struct ps_chunks) <= sizeof slots->growth, "struct ps_chunks has grown");
    return (struct ps_chunks *)(void *)slots->growth;
}

static inline size_t slots_per_chunk(const struct ps_slots *slots) { return slots->index_mask + 1; }

static inline bool slots_is_debug(const struct ps_slots *slots) {
    return (slots->is_checked | slots->is_malloc) != 0;
}

/* Positions below have a stamp. */
static inline size_t slots_touched(const struct ps_slots *slots) {
    return slots_is_debug(slots) ? slots->touched : slots->reach;
}

/* The head of the list of free places. */
static inline uint64_t *slots_list(struct ps_slots *slots) {
    return PS_UNLIKELY(slots_is_debug(slots)) ? &slots->kept : &slots->free;
}

/* The place of a position that has memory. */
static inline char *slots_place(const struct ps_slots *slots, size_t position) {
    return ps_slots_place(slots->directory[position >> slots->shift],
                          ps_slots_index(slots, position), ps_slots_shape_of(slots));
}

/* Sets or clears the bit of a position that has memory. */
static inline void slots_flip(const struct ps_slots *slots, size_t position) {
    ps_slots_flip(slots, slots->directory[position >> slots->shift],
                  ps_slots_index(slots, position));
}

static inline uint64_t *slots_bits(const struct ps_slots *slots, char *chunk) {
    return (uint64_t *)(void *)(chunk + slots->bits_offset);
}

static inline size_t slots_word_count(const struct ps_slots *slots) {
    return (slots_per_chunk(slots) + 63) / 64;
}

/* The generation with which each position of a chunk begins when it has memory again; 0: all of
 * them are used up. Not used while the chunk has memory. */
static inline uint32_t *slots_first_generations(const struct ps_slots *slots) {
    size_t capacity = slots->directory_bytes / (sizeof(char *) + sizeof(uint32_t));
    return (uint32_t *)(void *)(slots->directory + capacity);
}

static inline uint32_t slots_generation_of(const struct ps_slots *slots, uint64_t stamp) {
    return (uint32_t)((stamp & ~(PS_SLOTS_FREE | slots->position_mask)) >>
                      __builtin_popcountll(slots->position_mask));
}

/* chunks.c: a free place for the next insert, or more; the list was empty. False: ENOMEM. */
bool ps_slots_make_room(struct ps_slots *slots);

/* chunks.c: the number of inserts that need no source. */
size_t ps_slots_room(const struct ps_slots *slots);

#endif
