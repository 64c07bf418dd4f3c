/* SPDX-License-Identifier: MIT */
/*
 * Blocks of a shared heap, and its growth. Each call is one section; the system is asked for more
 * memory between two of them. See shared.h.
 */
#include "pools/common/debug.h"
#include "pools/shared/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define GROWTH_LEAST ((uint64_t)64 << 10)

static const char no_block[] = "not a block of this shared heap:";

/* Counts a block in or out. */
static inline void count(struct ps_shared *heap, const struct ps_offset_memory *memory, bool is_in,
                         uint64_t offset) {
    struct shared_header *header = shared_header(heap);
    uint64_t bytes = ps_fit_bytes(ps_offset_block(memory, offset)->head) - PS_FIT_HEAD;
    struct ps_offset_entry *end = ps_offset_notes_begin(memory);
    end = ps_offset_note(memory, end, &header->used_count);
    ps_offset_notes_end(memory, ps_offset_note(memory, end, &header->used_bytes));
    header->used_count += is_in ? 1 : UINT64_MAX;
    header->used_bytes += is_in ? bytes : -bytes;
}

/* Memory for the file up to `bytes` in all, which may be there already. Without the lock: growth of
 * two processes at once does not harm. */
static bool lengthen_file(const struct ps_shared *heap, uint64_t from, uint64_t bytes) {
    int result;
    do { /* ends with the signals */
        result = fallocate(heap->fd, 0, (off_t)from, (off_t)(bytes - from));
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

/* Grows the heap, in which a block of `size` did not fit when it was `from` long, or finds it grown
 * by another process. False and ENOMEM. */
static bool grow(struct ps_shared *heap, uint64_t from, uint64_t size, uint64_t align) {
    uint64_t max_bytes = heap->view.bytes;
    if (from >= max_bytes || size > max_bytes) {
        errno = ENOMEM;
        return false;
    }
    uint64_t least = ps_round_up(from + size + align + PS_FIT_MIN, SHARED_PAGE);
    uint64_t usual = ps_round_up(from + ps_max(from / 8, GROWTH_LEAST), SHARED_PAGE);
    least = ps_min(least, max_bytes); /* the end of the heap may be free: it is tried */
    uint64_t bytes = ps_min(ps_max(least, usual), max_bytes);
    if (!lengthen_file(heap, from, bytes)) {
        bytes = least;
        if (!lengthen_file(heap, from, bytes)) {
            errno = ENOMEM;
            return false;
        }
    }
    struct ps_offset_memory memory = ps_shared_enter(heap);
    if (ps_offset_bytes(&memory) < bytes) {
        ps_offset_heap_extend(&memory, bytes);
    }
    ps_shared_leave(heap);
    return true;
}

/* place: NULL, or receives the offset in the same section. */
static void *alloc(struct ps_shared *heap, size_t bytes, size_t align, ps_offset *place) {
    if (shared_is_reader(heap)) {
        errno = EROFS;
        return NULL;
    }
    if (bytes > heap->view.bytes) {
        errno = ENOMEM;
        return NULL;
    }
    uint64_t size = ps_fit_bytes_for(bytes);
    for (;;) { /* ends: the heap is longer each time, and never longer than max_bytes */
        struct ps_offset_memory memory = ps_shared_enter(heap);
        uint64_t length = ps_offset_bytes(&memory);
        uint64_t offset = ps_offset_heap_take(&memory, size, align);
        if (PS_LIKELY(offset != 0)) {
            if (place != NULL) {
                ps_offset_store(&memory, place, offset + PS_FIT_HEAD);
            }
            count(heap, &memory, true, offset);
        }
        ps_shared_leave(heap);
        if (PS_LIKELY(offset != 0)) {
            return ps_offset_at(&memory, offset + PS_FIT_HEAD);
        }
        if (!grow(heap, length, size, align)) {
            return NULL;
        }
    }
}

void *ps_shared_alloc(struct ps_shared *heap, size_t bytes) {
    return alloc(heap, bytes, PS_FIT_UNIT, NULL);
}

void *ps_shared_zalloc(struct ps_shared *heap, size_t bytes) {
    void *payload = alloc(heap, bytes, PS_FIT_UNIT, NULL);
    return payload != NULL ? memset(payload, 0, bytes) : NULL;
}

void *ps_shared_alloc_aligned(struct ps_shared *heap, size_t bytes, size_t align) {
    if (!ps_is_power_of_two(align) || align > SHARED_PAGE) {
        errno = EINVAL;
        return NULL;
    }
    return alloc(heap, bytes, ps_max(align, PS_FIT_UNIT), NULL);
}

/* Ends the program unless the word lies after the header. */
static void check_place(const struct ps_shared *heap, const ps_offset *place) {
    uint64_t offset = (uint64_t)((uintptr_t)place - (uintptr_t)heap->view.base);
    if (offset < sizeof(struct shared_header) || offset > heap->view.bytes - sizeof *place ||
        offset % sizeof *place != 0) {
        ps_debug_misuse("not a word in this shared heap:", place, heap->chunks.name);
    }
}

void *ps_shared_alloc_into(struct ps_shared *heap, size_t bytes, ps_offset *place) {
    check_place(heap, place);
    if (*place != 0) {
        errno = EINVAL;
        return NULL;
    }
    return alloc(heap, bytes, PS_FIT_UNIT, place);
}

/* Inside of a section. */
static void release(struct ps_shared *heap, const struct ps_offset_memory *memory,
                    uint64_t offset) {
    count(heap, memory, false, offset);
    ps_offset_heap_release(memory, offset);
}

void ps_shared_free(struct ps_shared *heap, void *payload) {
    if (payload == NULL || shared_is_reader(heap)) {
        return;
    }
    struct ps_offset_memory memory = ps_shared_enter(heap);
    release(heap, &memory, ps_offset_heap_used(&memory, payload, no_block, heap->chunks.name));
    ps_shared_leave(heap);
}

void ps_shared_free_from(struct ps_shared *heap, ps_offset *place) {
    if (shared_is_reader(heap)) {
        return;
    }
    check_place(heap, place);
    if (*place == 0) {
        return;
    }
    struct ps_offset_memory memory = ps_shared_enter(heap);
    void *payload = ps_offset_at(&memory, *place);
    uint64_t offset = ps_offset_heap_used(&memory, payload, no_block, heap->chunks.name);
    ps_offset_store(&memory, place, 0);
    release(heap, &memory, offset);
    ps_shared_leave(heap);
}

/* True when the block has been made long enough, or short enough, where it is. */
static bool resize(struct ps_shared *heap, void *payload, uint64_t size, size_t *old_bytes) {
    struct ps_offset_memory memory = ps_shared_enter(heap);
    uint64_t offset = ps_offset_heap_used(&memory, payload, no_block, heap->chunks.name);
    *old_bytes = ps_fit_bytes(ps_offset_block(&memory, offset)->head) - PS_FIT_HEAD;
    count(heap, &memory, false, offset);
    bool is_resized = ps_offset_heap_resize(&memory, offset, size);
    count(heap, &memory, true, offset);
    ps_shared_leave(heap);
    return is_resized;
}

void *ps_shared_realloc_aligned(struct ps_shared *heap, void *payload, size_t bytes, size_t align) {
    if (payload == NULL || shared_is_reader(heap) || bytes > heap->view.bytes ||
        !ps_is_power_of_two(align) || align > SHARED_PAGE) {
        return ps_shared_alloc_aligned(heap, bytes, align);
    }
    size_t old_bytes;
    if (((uintptr_t)payload & (align - 1)) != 0) {
        old_bytes = ps_shared_usable_size(heap, payload);
    } else if (resize(heap, payload, ps_fit_bytes_for(bytes), &old_bytes)) {
        return payload;
    }
    void *moved = alloc(heap, bytes, ps_max(align, PS_FIT_UNIT), NULL);
    if (moved != NULL) {
        memcpy(moved, payload, ps_min(old_bytes, bytes));
        ps_shared_free(heap, payload);
    }
    return moved;
}

void *ps_shared_realloc(struct ps_shared *heap, void *payload, size_t bytes) {
    return ps_shared_realloc_aligned(heap, payload, bytes, PS_FIT_UNIT);
}

size_t ps_shared_usable_size(struct ps_shared *heap, const void *payload) {
    if (payload == NULL) {
        return 0;
    }
    if (shared_is_reader(heap)) { /* the size of a used block does not change */
        const struct ps_offset_block *block = (const void *)((const char *)payload - PS_FIT_HEAD);
        return ps_fit_bytes(ps_load_relaxed(&block->head)) - PS_FIT_HEAD;
    }
    struct ps_offset_memory memory = ps_shared_enter(heap);
    uint64_t offset = ps_offset_heap_used(&memory, payload, no_block, heap->chunks.name);
    size_t bytes = ps_fit_bytes(ps_offset_block(&memory, offset)->head) - PS_FIT_HEAD;
    ps_shared_leave(heap);
    return bytes;
}
