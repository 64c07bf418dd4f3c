/* SPDX-License-Identifier: MIT */
/*
 * The memory of slot maps: chunks, the table that leads to them, places that are touched for the
 * first time, trim. See slots.h. Called by slots.c and by the program. No locks.
 */
#include "pools/slots/slots.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <string.h>

static size_t least_directory_bytes(const struct ps_chunks *growth) {
    return growth->source == NULL ? PS_PAGE_BYTES : 192;
}

/* Room for one more entry in the table. */
static bool widen_directory(struct ps_slots *slots) {
    size_t entry = sizeof(char *) + sizeof(uint32_t);
    size_t capacity = slots->directory_bytes / entry;
    if (slots->chunk_count < capacity) {
        return true;
    }
    struct ps_chunks *growth = slots_growth(slots);
    size_t bytes = ps_max(slots->directory_bytes * 2, least_directory_bytes(growth));
    char **wider = (char **)ps_chunk_take_exact(growth, bytes, PS_ALIGN_DEFAULT);
    if (wider == NULL) {
        return false;
    }
    char **old = slots->directory;
    size_t old_bytes = slots->directory_bytes;
    const uint32_t *old_generations = slots_first_generations(slots);
    slots->directory = wider;
    slots->directory_bytes = bytes;
    if (old != NULL) {
        memcpy(wider, old, slots->chunk_count * sizeof *old);
        memcpy(slots_first_generations(slots), old_generations,
               slots->chunk_count * sizeof *old_generations);
        ps_chunk_give(growth, old, old_bytes);
    }
    return true;
}

static char *take_chunk(struct ps_slots *slots) {
    size_t align = ps_max(slots->object_offset, PS_ALIGN_DEFAULT); /* the offset is the alignment */
    char *chunk = (char *)ps_chunk_take_exact(slots_growth(slots), slots->chunk_bytes, align);
    if (chunk != NULL) {
        memset(slots_bits(slots, chunk), 0, slots_word_count(slots) * sizeof(uint64_t));
    }
    return chunk;
}

/* Makes places [first, limit) free, lowest first, in front of the list, which is empty. */
static void link_places(struct ps_slots *slots, size_t first, size_t limit, uint32_t generation) {
    uint64_t stamp = PS_SLOTS_FREE | (uint64_t)generation * (slots->position_mask + 1);
    for (size_t position = first; position < limit; position++) {
        char *place = slots_place(slots, position);
        uint64_t next = position + 1 < limit ? position + 1 : slots->position_mask;
        *ps_slots_stamp(place) = stamp | next;
        if (slots->is_checked) {
            ps_poison(place, slots->size_bytes);
        }
    }
    *slots_list(slots) = first;
}

/* A chunk that trim has returned, whose positions have generations left. */
static size_t find_absent(struct ps_slots *slots) {
    const uint32_t *generations = slots_first_generations(slots);
    size_t index = slots->absent_from;
    while (index < slots->chunk_count &&
           (slots->directory[index] != NULL || generations[index] == 0)) {
        index++;
    }
    slots->absent_from = index;
    return index;
}

/* Gives memory back to the positions of an absent chunk. All get a stamp, so that their old handles
 * remain stale. */
static bool revive(struct ps_slots *slots, size_t index) {
    char *chunk = take_chunk(slots);
    if (chunk == NULL) {
        return false;
    }
    slots->directory[index] = chunk;
    slots->absent_count--;
    size_t first = index << slots->shift;
    size_t limit = ps_min(first + slots_per_chunk(slots), (size_t)slots->position_mask);
    link_places(slots, first, limit, slots_first_generations(slots)[index]);
    return true;
}

static void set_touched(struct ps_slots *slots, size_t touched) {
    if (slots_is_debug(slots)) {
        slots->touched = touched;
    } else {
        slots->reach = touched;
    }
}

/* The end of the positions that have memory or had some. */
static size_t end_of(const struct ps_slots *slots) {
    return ps_min(slots->chunk_count << slots->shift, (size_t)slots->position_mask);
}

static bool append_chunk(struct ps_slots *slots) {
    if (slots->chunk_count << slots->shift >= slots->position_mask) {
        errno = ENOMEM; /* all positions are in use or used up */
        return false;
    }
    if (!widen_directory(slots)) {
        return false;
    }
    char *chunk = take_chunk(slots);
    if (chunk == NULL) {
        return false;
    }
    slots->directory[slots->chunk_count++] = chunk;
    return true;
}

bool ps_slots_make_room(struct ps_slots *slots) {
    size_t position = slots_touched(slots);
    if (position == end_of(slots)) {
        size_t absent = slots->absent_count != 0 ? find_absent(slots) : slots->chunk_count;
        if (absent < slots->chunk_count) {
            return revive(slots, absent);
        }
        if (!append_chunk(slots)) {
            return false;
        }
    }
    link_places(slots, position, position + 1, 1);
    set_touched(slots, position + 1);
    return true;
}

size_t ps_slots_room(const struct ps_slots *slots) {
    size_t present = (slots->chunk_count - slots->absent_count) << slots->shift;
    bool has_last = slots->chunk_count << slots->shift > slots->position_mask;
    /* The last position of all is none. */
    present -= has_last && slots->directory[slots->chunk_count - 1] != NULL;
    return ps_min(present - slots->live_count - slots->used_up_count,
                  slots->live_max - slots->live_count);
}

bool ps_slots_reserve(struct ps_slots *slots, size_t count) {
    if (count > slots->live_max - slots->live_count) {
        errno = ENOMEM;
        return false;
    }
    while (ps_slots_room(slots) < count) {
        size_t absent = slots->absent_count != 0 ? find_absent(slots) : slots->chunk_count;
        if (absent < slots->chunk_count) {
            uint64_t others = *slots_list(slots);
            if (!revive(slots, absent)) {
                return false;
            }
            size_t last = ((absent + 1) << slots->shift) - 1;
            last = ps_min(last, (size_t)slots->position_mask - 1);
            uint64_t *stamp = ps_slots_stamp(slots_place(slots, last));
            *stamp = (*stamp & ~slots->position_mask) | others;
        } else if (!append_chunk(slots)) {
            return false;
        }
    }
    return true;
}

/* The generation with which the positions of a chunk without live objects may begin again; 0: they
 * are all used up; UINT32_MAX: a part of them is, and the chunk is not returned. */
static uint32_t next_generation(const struct ps_slots *slots, size_t index) {
    size_t first = index << slots->shift;
    size_t limit = ps_min(first + slots_per_chunk(slots), slots_touched(slots));
    uint32_t highest = 0;
    size_t used_up = 0;
    for (size_t position = first; position < limit; position++) {
        uint32_t next = slots_generation_of(slots, *ps_slots_stamp(slots_place(slots, position)));
        highest = next > highest ? next : highest;
        used_up += next == 0;
    }
    return used_up == 0 || highest == 0 ? highest : UINT32_MAX;
}

/* Returns the chunks without a touched place, but keep_bytes of them. Returns the bytes of these.
 */
static size_t drop_untouched(struct ps_slots *slots, size_t keep_bytes) {
    size_t used_count = (slots_touched(slots) + slots_per_chunk(slots) - 1) >> slots->shift;
    size_t kept_count = ps_min(keep_bytes / slots->chunk_bytes,
                               slots->chunk_count - ps_min(used_count, slots->chunk_count));
    while (slots->chunk_count > used_count + kept_count) {
        char *chunk = slots->directory[--slots->chunk_count];
        ps_chunk_give(slots_growth(slots), chunk, slots->chunk_bytes);
    }
    return kept_count * slots->chunk_bytes;
}

static bool is_empty(const struct ps_slots *slots, char *chunk) {
    const uint64_t *bits = slots_bits(slots, chunk);
    for (size_t word = 0; word < slots_word_count(slots); word++) {
        if (bits[word] != 0) {
            return false;
        }
    }
    return true;
}

/* Takes the free places of chunks that are marked as absent, by a generation, off the list. */
static void unlink_marked(struct ps_slots *slots) {
    const uint32_t *generations = slots_first_generations(slots);
    uint64_t *link = slots_list(slots);
    while ((*link & slots->position_mask) != slots->position_mask) {
        size_t position = (size_t)(*link & slots->position_mask);
        uint64_t *stamp = ps_slots_stamp(slots_place(slots, position));
        if (generations[position >> slots->shift] != UINT32_MAX) {
            *link = (*link & ~slots->position_mask) | (*stamp & slots->position_mask);
        } else {
            link = stamp;
        }
    }
}

size_t ps_slots_trim_to(struct ps_slots *slots, size_t keep_bytes) {
    int saved_errno = errno;
    size_t before_bytes = slots_growth(slots)->total_bytes;
    uint32_t *generations = slots_first_generations(slots);
    keep_bytes -= drop_untouched(slots, keep_bytes);
    for (size_t index = 0; index < slots->chunk_count; index++) {
        if (slots->directory[index] != NULL) {
            bool is_touched = index << slots->shift < slots_touched(slots);
            bool is_given = is_touched && is_empty(slots, slots->directory[index]);
            if (is_given && slots->chunk_bytes <= keep_bytes) {
                keep_bytes -= slots->chunk_bytes;
                is_given = false;
            }
            generations[index] = is_given ? next_generation(slots, index) : UINT32_MAX;
        }
    }
    unlink_marked(slots);
    for (size_t index = 0; index < slots->chunk_count; index++) {
        char *chunk = slots->directory[index];
        if (chunk == NULL || generations[index] == UINT32_MAX) {
            continue;
        }
        if (generations[index] == 0) {
            slots->used_up_count -=
                ps_min(slots_per_chunk(slots), slots_touched(slots) - (index << slots->shift));
        }
        ps_chunk_give(slots_growth(slots), chunk, slots->chunk_bytes);
        slots->directory[index] = NULL;
        slots->absent_count++;
        slots->absent_from = ps_min(slots->absent_from, index);
        size_t end = ps_min((index + 1) << slots->shift, (size_t)slots->position_mask);
        if (slots_touched(slots) < end) { /* its positions above begin with it again */
            set_touched(slots, end);
        }
    }
    errno = saved_errno;
    return before_bytes - slots_growth(slots)->total_bytes;
}

size_t ps_slots_trim(struct ps_slots *slots) { return ps_slots_trim_to(slots, 0); }
