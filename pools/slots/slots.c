/* SPDX-License-Identifier: MIT */
/*
 * Slot maps: from init to destroy, the slow halves of insert, get, remove and next, PS_DEBUG. See
 * poolshim/slots.h and slots.h. No locks.
 */
#include "pools/slots/slots.h"

#include "pools/engine/base/atomic.h"

#include <errno.h>
#include <string.h>

static size_t live(void *slots, size_t *bytes) {
    const struct ps_slots *map = (const struct ps_slots *)slots;
    *bytes = map->live_count * map->size_bytes;
    return map->live_count;
}

static const struct ps_family family = {.name = "slots", .live = live};

#define CHUNK_BYTES ((size_t)64 << 10)
#define SIZE_BYTES_MAX ((size_t)PTRDIFF_MAX / 64)
#define GENERATION_MAX ((uint32_t)INT32_MAX)
#define FILL 0xdd

enum { PLACES_MIN = 8, POSITION_BITS_MIN = 4, POSITION_BITS_64 = 32, POSITION_BITS_32 = 20 };

/* ---- shape ---- */

static size_t chunk_bytes(const struct ps_slots *slots, uint32_t shift) {
    size_t places = (size_t)1 << shift;
    return slots->object_offset + places * slots->stride + (places + 63) / 64 * sizeof(uint64_t);
}

/* The longest chunk within target_bytes, but not longer than max_items and positions need. */
static void choose_chunk(struct ps_slots *slots, size_t target_bytes, uint32_t position_bits) {
    size_t wanted = slots->live_max;
    while (((size_t)1 << slots->shift < PLACES_MIN ||
            chunk_bytes(slots, slots->shift + 1) <= target_bytes) &&
           slots->shift < position_bits && (size_t)1 << slots->shift < wanted) {
        slots->shift++;
    }
    slots->index_mask = ((size_t)1 << slots->shift) - 1;
    slots->bits_offset = slots->object_offset + (slots->stride << slots->shift);
    slots->chunk_bytes = chunk_bytes(slots, slots->shift);
}

/* False: out of range. */
static bool choose_handles(struct ps_slots *slots, const struct ps_slots_options *options,
                           uint32_t *position_bits) {
    uint32_t handle_bits = options->handle_bits != 0 ? options->handle_bits : 64;
    uint32_t usual = handle_bits == 64 ? POSITION_BITS_64 : POSITION_BITS_32;
    uint32_t bits = options->position_bits != 0 ? options->position_bits : usual;
    uint32_t bits_max = handle_bits == 64 ? 32 : 30;
    if ((handle_bits != 64 && handle_bits != 32) || bits < POSITION_BITS_MIN || bits > bits_max) {
        return false;
    }
    uint32_t last = handle_bits == 64 ? GENERATION_MAX : ((uint32_t)1 << (32 - bits)) - 1;
    slots->position_mask = ((uint64_t)1 << bits) - 1;
    slots->last_generation = (uint64_t)last << bits;
    *position_bits = bits;
    return true;
}

/* As the map of *slots at its beginning. */
static void forget(struct ps_slots *slots) {
    slots->directory = NULL;
    slots->directory_bytes = 0;
    slots->reach = 0;
    slots->touched = 0;
    slots->free = slots->position_mask;
    slots->kept = slots->position_mask;
    slots->live_count = 0;
    slots->chunk_count = 0;
    slots->absent_count = 0;
    slots->absent_from = 0;
    slots->used_up_count = 0;
}

bool ps_slots_init(struct ps_slots *slots, size_t size, size_t align,
                   const struct ps_slots_options *options) {
    static const struct ps_slots_options none;
    struct ps_slots_options wanted = options != NULL ? *options : none;
    size = ps_max(size, 1);
    align = align != 0 ? align : ps_min(size & (0 - size), PS_ALIGN_DEFAULT);
    uint32_t position_bits = 0;
    *slots = (struct ps_slots){
        .live_max = wanted.max_items != 0 ? wanted.max_items : SIZE_MAX,
        .size_bytes = size,
        .is_malloc = ps_debug_is_malloc(),
        .is_checked = ps_debug_is_check() && !ps_debug_is_malloc(),
    };
    if (!ps_is_power_of_two(align) || align > PS_SLOTS_ALIGN_MAX || size > SIZE_BYTES_MAX ||
        !choose_handles(slots, &wanted, &position_bits)) {
        errno = EINVAL;
        return false;
    }
    if (slots->is_malloc) { /* a place has the address of its block */
        wanted.chunks.source = ps_source_malloc();
    }
    size_t place_align = slots->is_malloc ? sizeof(void *) : ps_max(align, sizeof(uint64_t));
    size_t place_bytes = slots->is_malloc ? sizeof(void *) : size;
    slots->object_offset = place_align;
    slots->stride = ps_round_up(place_bytes + sizeof(uint64_t), place_align);
    slots->block_align = align;
    size_t target = wanted.chunks.max_bytes != 0 ? wanted.chunks.max_bytes : CHUNK_BYTES;
    choose_chunk(slots, target, position_bits);
    ps_chunks_init(slots_growth(slots), &wanted.chunks, "slots", slots->chunk_bytes,
                   slots->chunk_bytes);
    forget(slots);
    ps_registry_note_made(slots_growth(slots), slots, &family);
    return true;
}

bool ps_slots_enlist(struct ps_slots *slots) {
    return ps_registry_enter(slots_growth(slots), slots, &family);
}

void ps_slots_move(struct ps_slots *to, struct ps_slots *from) {
    *to = *from;
    struct ps_chunks *growth = slots_growth(from);
    if (PS_UNLIKELY(growth->record != NULL)) {
        ps_registry_move(slots_growth(to), growth, to);
    }
    growth->total_bytes = 0;
    growth->chunk_count = 0;
    forget(from);
}

/* ---- PS_DEBUG ---- */

static char *name_of(const struct ps_slots *slots) {
    return (char *)(uintptr_t)((const struct ps_chunks *)(const void *)slots->growth)->name;
}

/* Around every change of checked maps: two threads at once are found. */
static void enter(struct ps_slots *slots) {
    /* acquire: pairs with the release below; in a correct program no other thread is here. */
    if (slots->is_checked && ps_exchange_acquire(&slots->x_is_busy, 1u) != 0) {
        ps_debug_misuse("two threads at once change", slots, name_of(slots));
    }
}

static void leave(struct ps_slots *slots) {
    if (slots->is_checked) {
        ps_store_release(&slots->x_is_busy, 0u); /* release: pairs with the acquire above */
    }
}

/* The object of a live place. */
static void *object_of(const struct ps_slots *slots, char *place) {
    return PS_UNLIKELY(slots->is_malloc) ? *(void **)(void *)place : place;
}

/* A block begins with room for the stamp, by which ps_slots_handle finds the handle. */
static size_t block_offset(const struct ps_slots *slots) {
    return ps_max(slots->block_align, PS_ALIGN_DEFAULT);
}

static bool make_block(const struct ps_slots *slots, char *place, uint64_t handle) {
    struct ps_source *source = ps_source_malloc();
    size_t offset = block_offset(slots);
    char *block = (char *)source->alloc(source, offset + slots->size_bytes, offset);
    if (block == NULL) {
        return false;
    }
    *(void **)(void *)place = block + offset;
    *ps_slots_stamp(block + offset) = handle;
    return true;
}

static void free_block(const struct ps_slots *slots, char *place) {
    struct ps_source *source = ps_source_malloc();
    size_t offset = block_offset(slots);
    source->free(source, (char *)object_of(slots, place) - offset, offset + slots->size_bytes);
}

/* ---- insert, get, remove ---- */

/* The newest free place becomes live; there is one. 0: there is no memory for its block. */
static uint64_t take_place(struct ps_slots *slots, void **object) {
    uint64_t *list = slots_list(slots);
    size_t position = (size_t)*list;
    char *place = slots_place(slots, position);
    uint64_t stamp = *ps_slots_stamp(place);
    uint64_t handle = (stamp & ~(PS_SLOTS_FREE | slots->position_mask)) | position;
    if (PS_UNLIKELY(slots->is_malloc) && !make_block(slots, place, handle)) {
        return 0;
    }
    if (slots->is_checked) {
        ps_unpoison(place, slots->size_bytes);
    }
    *list = stamp & slots->position_mask;
    *ps_slots_stamp(place) = handle;
    slots_flip(slots, position);
    slots->live_count++;
    *object = object_of(slots, place);
    return handle;
}

uint64_t ps_slots_insert_slow(struct ps_slots *slots, void **object) {
    uint64_t handle = 0;
    enter(slots);
    if (slots->live_count == slots->live_max) {
        errno = ENOMEM;
    } else if (*slots_list(slots) != slots->position_mask || ps_slots_make_room(slots)) {
        handle = take_place(slots, object);
    }
    leave(slots);
    return handle;
}

/* The place of a live object; NULL: the handle is stale, or none. */
static char *find(const struct ps_slots *slots, uint64_t handle) {
    size_t position = (size_t)(handle & slots->position_mask);
    if (position >= slots_touched(slots) || slots->directory[position >> slots->shift] == NULL) {
        return NULL;
    }
    char *place = slots_place(slots, position);
    return *ps_slots_stamp(place) == handle ? place : NULL;
}

void *ps_slots_get_slow(const struct ps_slots *slots, uint64_t handle) {
    char *place = find(slots, handle);
    return place != NULL ? object_of(slots, place) : NULL;
}

/* A live place becomes free, or used up. */
static void put_place(struct ps_slots *slots, char *place, uint64_t handle) {
    size_t position = (size_t)(handle & slots->position_mask);
    if (slots->is_malloc) {
        free_block(slots, place);
    } else if (slots->is_checked) {
        memset(place, FILL, slots->size_bytes);
        ps_poison(place, slots->size_bytes);
    }
    if (handle >= slots->last_generation) {
        *ps_slots_stamp(place) = PS_SLOTS_FREE | slots->position_mask;
        slots->used_up_count++;
    } else {
        uint64_t generation = (handle & ~slots->position_mask) + slots->position_mask + 1;
        *ps_slots_stamp(place) = PS_SLOTS_FREE | generation | *slots_list(slots);
        *slots_list(slots) = position;
    }
    slots_flip(slots, position);
    slots->live_count--;
}

bool ps_slots_remove_slow(struct ps_slots *slots, uint64_t handle) {
    int saved_errno = errno;
    enter(slots);
    char *place = find(slots, handle);
    if (place != NULL) {
        put_place(slots, place, handle);
    }
    leave(slots);
    errno = saved_errno;
    return place != NULL;
}

/* ---- all objects ---- */

/* Moves the cursor to the next 64 places, or the rest of 64, that have a live object. False: there
 * are no more. */
static bool next_word(const struct ps_slots *slots, struct ps_slots_cursor *cursor) {
    size_t position = cursor->next;
    cursor->rest = 0;
    while (position < slots_touched(slots) && cursor->rest == 0) {
        char *chunk = slots->directory[position >> slots->shift];
        size_t index = position & slots->index_mask;
        position -= index;
        if (chunk == NULL) {
            position += slots_per_chunk(slots);
            continue;
        }
        size_t first = ps_round_down(index, 64);
        uint64_t bits = slots_bits(slots, chunk)[index >> 6];
        cursor->rest = bits & (UINT64_MAX << (index & 63));
        cursor->places = chunk + slots->object_offset + first * slots->stride;
        position += ps_min(first + 64, slots_per_chunk(slots));
    }
    cursor->next = position;
    return cursor->rest != 0;
}

size_t ps_slots_next_run(const struct ps_slots *slots, struct ps_slots_cursor *cursor) {
    cursor->rest = 0;
    if (slots_is_debug(slots) || !next_word(slots, cursor) || cursor->rest != UINT64_MAX) {
        return 0;
    }
    size_t count = 64;
    const uint64_t *bits = slots_bits(slots, slots->directory[(cursor->next - 1) >> slots->shift]);
    size_t index = ps_slots_index(slots, cursor->next);
    while (index != 0 && cursor->next < slots_touched(slots) && bits[index >> 6] == UINT64_MAX) {
        count += 64;
        cursor->next += 64;
        index = ps_slots_index(slots, cursor->next); /* 0: the next chunk's */
    }
    return count;
}

/* The place of the next live object. In debug modes nothing is left to the inlined half. */
static char *next_place(const struct ps_slots *slots, struct ps_slots_cursor *cursor) {
    if (!next_word(slots, cursor)) {
        return NULL;
    }
    char *place = cursor->places + (size_t)__builtin_ctzll(cursor->rest) * slots->stride;
    cursor->rest &= cursor->rest - 1;
    if (slots_is_debug(slots)) {
        cursor->rest = 0;
        cursor->next = (size_t)(*ps_slots_stamp(place) & slots->position_mask) + 1;
    }
    return place;
}

void *ps_slots_next_slow(const struct ps_slots *slots, struct ps_slots_cursor *cursor) {
    char *place = next_place(slots, cursor);
    return place != NULL ? object_of(slots, place) : NULL;
}

void ps_slots_reset(struct ps_slots *slots) {
    int saved_errno = errno;
    enter(slots);
    struct ps_slots_cursor cursor = ps_slots_begin();
    while (next_word(slots, &cursor)) {
        for (uint64_t live = cursor.rest; live != 0; live &= live - 1) {
            char *place = cursor.places + (size_t)__builtin_ctzll(live) * slots->stride;
            put_place(slots, place, *ps_slots_stamp(place));
        }
    }
    leave(slots);
    errno = saved_errno;
}

void ps_slots_destroy(struct ps_slots *slots) {
    int saved_errno = errno;
    ps_registry_note_ended(slots_growth(slots));
    struct ps_slots_cursor cursor = ps_slots_begin();
    for (char *place; slots->is_malloc && (place = next_place(slots, &cursor)) != NULL;) {
        free_block(slots, place);
    }
    struct ps_chunks *growth = slots_growth(slots);
    for (size_t index = 0; index < slots->chunk_count; index++) {
        if (slots->directory[index] != NULL) {
            ps_chunk_give(growth, slots->directory[index], slots->chunk_bytes);
        }
    }
    if (slots->directory != NULL) {
        ps_chunk_give(growth, slots->directory, slots->directory_bytes);
    }
    forget(slots);
    errno = saved_errno;
}
