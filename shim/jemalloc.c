/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's own functions for blocks, with the prototypes, flags and results of its version 5. A
 * block of one is a block of malloc: it may be passed to free and realloc, and one of malloc's to
 * these. mallctl is mallctl.c.
 *
 * As there, the usable size of a block is what nallocx returns for its request: so each function
 * asks the engine for that many bytes, and MALLOCX_ZERO zeroes them all. An exception are blocks
 * that are sampled, and those after memory was exhausted, which may be longer. Calls that jemalloc
 * leaves undefined: a size of 0 is taken as 1, a NULL block is no error.
 *
 * Thread caches do not exist here: MALLOCX_TCACHE has no effect. Any thread. No locks.
 */
#include "shim/jemalloc.h"

#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/os.h"
#include "shim/entry.h"
#include "shim/mallctl.h"

/* ---- flags ---- */

#define FLAG_ALIGN_MASK 0x3f
#define FLAG_ZERO 0x40
#define FLAG_ARENA_SHIFT 20

static size_t align_of(int flags) { return (size_t)1 << (flags & FLAG_ALIGN_MASK); }

static bool is_aligned(const void *block, int flags) {
    return ((uintptr_t)block & (align_of(flags) - 1)) == 0;
}

/* ---- arenas ---- */

/* A part of the heap that an arena is. */
struct place {
    struct ps_partition *partition; /* NULL: the heap of malloc */
    bool is_there;                  /* false: there is no such arena, and none can be made */
};

/* The arena that the flags name, or else the thread's. Without one, the upper bits are 0. */
static size_t arena_of(int flags) {
    unsigned named = (unsigned)flags >> FLAG_ARENA_SHIFT;
    return named != 0 ? named - 1 : ps_mallctl_thread_arena();
}

static struct place place_of(int flags) {
    size_t arena = arena_of(flags);
    struct ps_partition *partition = arena != 0 ? ps_mallctl_partition_for_block(arena) : NULL;
    return (struct place){.partition = partition, .is_there = arena == 0 || partition != NULL};
}

/* That of a block, for its copy: the flags tell it only if they name one. */
static struct place place_of_block(const void *block, int flags) {
    return (unsigned)flags >> FLAG_ARENA_SHIFT != 0
               ? place_of(flags)
               : (struct place){.partition = ps_partition_of(block), .is_there = true};
}

/* ---- lengths ---- */

/* Arenas have more classes than the heap of malloc, which has medium blocks for these sizes. */
static size_t length_apart(size_t size, size_t align) {
    if (ps_block_length(size, align) == 0) {
        return 0;
    }
    uint32_t class_index = size <= PS_CLASS_BYTES_LIMIT
                               ? ps_size_class_of_apart(ps_max(size, 1), align)
                               : PS_CLASS_NONE;
    return class_index != PS_CLASS_NONE ? ps_size_classes[class_index].block_bytes
                                        : ps_round_up(ps_max(size, 1), ps_os_page_bytes());
}

static size_t length_in(const struct ps_partition *partition, size_t size, int flags) {
    return PS_LIKELY(partition == NULL) ? ps_block_length(size, align_of(flags))
                                        : length_apart(size, align_of(flags));
}

/* ---- blocks ---- */

static void *zero_aligned(size_t length, size_t align) {
    if (align <= PS_JEMALLOC_QUANTUM ||
        (length > ps_size_class_max_bytes && align <= ps_os_page_bytes())) {
        return ps_block_zalloc(length); /* memory that reads as zero is not written */
    }
    void *block = ps_block_alloc_aligned(length, align);
    return block != NULL ? ps_bytes_zero_block(block, length) : NULL;
}

static void *allocate_any(size_t length, size_t align, int flags) {
    return (flags & FLAG_ZERO) != 0 ? zero_aligned(length, align)
                                    : ps_block_alloc_aligned(length, align);
}

/* length: of length_in; 0: there is no such block. */
static void *allocate(struct place place, size_t length, int flags) {
    size_t align = align_of(flags);
    if (length == 0 || !place.is_there) {
        return NULL;
    }
    if (PS_UNLIKELY(place.partition != NULL)) {
        return ps_partition_alloc(place.partition, length, align, (flags & FLAG_ZERO) != 0);
    }
    void *block = allocate_any(length, align, flags);
    if (PS_LIKELY(length <= ps_size_class_max_bytes) || block == NULL ||
        ps_block_usable(block) == length) {
        return block;
    }
    /* A front had one that is up to an eighth longer: aligned ones are not from there. */
    void *exact = allocate_any(length, ps_max(align, PS_MEDIUM_PAGE_BYTES * 2), flags);
    if (exact == NULL) {
        return block;
    }
    ps_heap_free(block);
    return exact;
}

/* Zeroes what a block has grown by. */
static void zero_growth(void *block, size_t old_bytes, size_t bytes, int flags) {
    if ((flags & FLAG_ZERO) != 0 && bytes > old_bytes) {
        (void)ps_bytes_zero_block((char *)block + old_bytes, bytes - old_bytes);
    }
}

PS_EXPORT void *mallocx(size_t size, int flags) {
    struct place place = place_of(flags);
    return allocate(place, length_in(place.partition, size, flags), flags);
}

PS_EXPORT size_t nallocx(size_t size, int flags) {
    bool is_apart = arena_of(flags) != 0;
    return is_apart ? length_apart(size, align_of(flags)) : ps_block_length(size, align_of(flags));
}

PS_EXPORT size_t sallocx(const void *block, int flags) {
    (void)flags;
    return ps_block_usable(block);
}

PS_EXPORT void dallocx(void *block, int flags) {
    (void)flags;
    ps_heap_free(block);
}

/* The size may be any from the requested one to the usable one. */
PS_EXPORT void sdallocx(void *block, size_t size, int flags) {
    if (PS_UNLIKELY(ps_hard_level != 0) && block != NULL) {
        const struct ps_partition *partition = ps_partition_of(block);
        size_t usable = ps_block_usable(block);
        if (length_in(partition, size, flags) != length_in(partition, usable, flags)) {
            ps_block_check_size(block, size, align_of(flags));
        }
    }
    ps_heap_free(block);
}

/* A copy has the old block's usable bytes, as far as they fit. */
static void *resize_by_copy(struct place place, void *block, size_t length, int flags) {
    return ps_block_move(allocate(place, length, flags), block, length);
}

/* Blocks above the classes may move by moving pages, as in realloc, which leaves them in their part
 * of the heap. NULL: the block is unchanged. */
static void *resize_large(struct place place, void *block, size_t length, int flags) {
    size_t usable = ps_block_usable(block);
    void *resized = ps_block_resize(block, length);
    if (resized == NULL) {
        return NULL;
    }
    if (ps_block_usable(resized) != length || !is_aligned(resized, flags)) { /* it may be longer */
        void *copy = resize_by_copy(place, resized, length, flags);
        resized = copy != NULL ? copy : resized;
    }
    zero_growth(resized, usable, ps_block_usable(resized), flags);
    return resized;
}

PS_EXPORT void *rallocx(void *block, size_t size, int flags) {
    if (block == NULL) {
        return mallocx(size, flags);
    }
    struct place place = place_of_block(block, flags);
    size_t length = length_in(place.partition, size, flags);
    size_t usable = ps_block_usable(block);
    if (length == 0 || (usable == length && is_aligned(block, flags))) {
        return length == 0 ? NULL : block;
    }
    bool is_large = ps_min(usable, length) > ps_size_class_max_bytes;
    return is_large && align_of(flags) <= ps_os_page_bytes() &&
                   place.partition == ps_partition_of(block)
               ? resize_large(place, block, length, flags)
               : resize_by_copy(place, block, length, flags);
}

/* The most that is wanted; more than there can be is no error. */
static size_t most_wanted(size_t size, size_t extra) {
    return extra > PS_BLOCK_BYTES_MOST - size ? PS_BLOCK_BYTES_MOST : size + extra;
}

PS_EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags) {
    size_t usable = ps_block_usable(block);
    const struct ps_partition *partition = ps_partition_of(block);
    size_t least = length_in(partition, size, flags);
    if (block == NULL || least == 0) {
        return usable;
    }
    size_t most = length_in(partition, most_wanted(size, extra), flags);
    size_t resized = usable;
    if (usable < most) {
        resized = ps_block_resize_in_place(block, most);
        if (resized < least && least < most) {
            resized = ps_block_resize_in_place(block, least);
        }
    } else if (usable > most) {
        resized = ps_block_resize_in_place(block, most);
    }
    zero_growth(block, usable, resized, flags);
    return resized;
}
