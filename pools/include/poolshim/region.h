/* SPDX-License-Identifier: MIT */
/*
 * region.h - objects that are freed together: those of a request, a document, a frame.
 *
 * A region allocates blocks by moving a pointer through chunks of memory, and frees them all at
 * once. Destroying one costs the same for ten objects as for a million; resources to be released
 * one by one (descriptors, temporary files, locks, destructors) are registered as cleanups. Regions
 * form trees: a child dies before its parent does.
 *
 *     struct ps_region *request = ps_region_create(NULL);
 *     char *path = ps_region_printf(request, "%s/%s.html", root, page);
 *     int fd = open(path, O_RDONLY);
 *     ps_region_own_fd(request, fd);
 *     ...
 *     ps_region_destroy(request); // closes fd, frees path
 *
 * pools/examples/region.c is the whole of it.
 *
 * Memory. The region's record is at the start of its first chunk, so creating one takes one chunk:
 * 4 KiB from the page cache, in the steady state without a system call or an atomic. Each further
 * chunk is twice as long as the last, up to 1 MiB; both lengths are options. A request of more than
 * half of the next chunk gets a chunk of its own, a large block, which can be freed by itself at
 * any time. A request that does not fit into the current chunk is tried once more in the tail of
 * the one before it. Memory is not written before it is allocated.
 *
 * Blocks. A block is a size and an alignment; it takes its size rounded up to its alignment, but at
 * most to 16. ps_region_alloc aligns to 16, ps_region_alloc_unaligned and the texts to 1. Blocks
 * need not be freed. The newest block can be freed, and then the one before it, and so on, back
 * through all chunks, with any mixture of sizes and alignments. The newest block can also grow and
 * shrink in place. A free or a resize of a block gives its size and its alignment as they were: the
 * functions without `_aligned` in their names mean 16. They recognise the newest block even if its
 * alignment was less; but they mistake an older one for the newest if later blocks end where its
 * rounded size would (PS_DEBUG=check reports that): so pass the alignment. A gap before an aligned
 * block that follows an unaligned one is at least 8 bytes wide: its width is written there.
 *
 * Common to all functions. Sizes are bytes, at most PTRDIFF_MAX, alignments powers of two
 * up to 1 GiB. Size 0 is treated as 1. Without memory: the oom handler of the options, then NULL
 * and ENOMEM, the region as it was. Bad alignment: NULL and EINVAL. Blocks are not zeroed unless
 * said. One thread at a time may use a region and its descendants; other regions are independent.
 * Cost: O(1), and a few instructions inline, unless said otherwise. The oom handler may throw or
 * longjmp out of any allocation. A `struct ps_region *` must not be NULL, except for destroy.
 *
 * PS_DEBUG=check, and builds with checks: only the thread that made or adopted the region may use
 * it, a pointer or a size that is not the region's is reported, freed memory is overwritten. Each
 * block has 48 bytes in front of it and 16 or more after it that must not change: a write over
 * them is reported when the block is freed or resized, and by reset, trim_to, destroy and
 * ps_region_check. All blocks are aligned to 16 then, and texts do not follow each other.
 * PS_DEBUG=malloc: every block comes from malloc. Frees return the same; where they return false,
 * the block remains allocated; a block is large by its length alone. Blocks move whenever they
 * grow, texts do not follow each other, and the source is not called.
 *
 * From nginx: large blocks apart, cleanups, unaligned strings. From APR: trees, the order of reset,
 * formatting into the tail. From Tempesta: freeing and resizing the newest block across chunks, one
 * object and its region together. All reimplemented.
 */
#ifndef POOLSHIM_REGION_H
#define POOLSHIM_REGION_H

#include <errno.h>
#include <poolshim/common.h>
#include <poolshim/source.h>
#include <stdarg.h>
#include <string.h>

PS_BEGIN_DECLS

struct ps_region_options {
    /* first_bytes: 4 KiB; max_bytes: 1 MiB, at most 1 GiB. */
    struct ps_chunk_options chunks;
    /* Memory beyond the first chunk that reset and freeing retain for reuse. 0: 1 MiB; SIZE_MAX:
     * all; 1: none. */
    size_t retain_bytes;
};

/* Internal to the library. The part of a region that inline functions use; the rest follows it. */
struct ps_region {
    char *at;    /* next free byte of the current chunk */
    char *end;   /* of its room; multiple of 16 */
    char *floor; /* a block that starts here is freed out of line: it is the first of its chunk, or
                    there is a gap in front of it */
};

/* --- Making and ending --------------------------------------------------------------------- */

/* options: NULL for the defaults; not retained. Takes one chunk. To be ended by
 * ps_region_destroy. */
PS_API struct ps_region *ps_region_create(const struct ps_region_options *options);

/*
 * A region together with its first block, of `bytes` and aligned to 16, in one chunk: for an object
 * that owns a region for its parts. Returns the block and stores the region to *region; NULL, and
 * NULL stored, when memory is exhausted. bytes: may include the bytes of later allocations.
 */
PS_API void *ps_region_create_for(size_t bytes, const struct ps_region_options *options,
                                  struct ps_region **region);

/* The most bytes that the region's own record takes of a buffer of ps_region_init. */
#define PS_REGION_INIT_BYTES 512

/*
 * A region whose first chunk is the caller's: on the stack, static, in another object. Takes
 * nothing from the source before the buffer is full. buffer: any alignment; outlives the region;
 * is in use until ps_region_destroy, which must be called all the same. bytes: at
 * least PS_REGION_INIT_BYTES, else NULL and EINVAL.
 */
PS_API struct ps_region *ps_region_init(void *buffer, size_t bytes,
                                        const struct ps_region_options *options) PS_NOEXCEPT;

/*
 * Creates a region that is destroyed before `parent` is destroyed or reset, children newest first.
 * It has chunks of its own. Options that are 0 among source, oom and retain_bytes are those of the
 * parent.
 */
PS_API struct ps_region *ps_region_create_child(struct ps_region *parent,
                                                const struct ps_region_options *options);

/*
 * Ends the region, in this order: early cleanups; children, newest first, each in this same order;
 * cleanups, newest first; destructors of data; memory. Cleanups that a callback adds run, too. The
 * callbacks may use the region, but must neither throw nor destroy or reset it: that aborts. NULL
 * does nothing. Preserves errno. O(cleanups + chunks + large blocks), also of the descendants.
 */
PS_API void ps_region_destroy(struct ps_region *region) PS_NOEXCEPT;

/*
 * As new: everything that ps_region_destroy does, except that it retains the first chunk and up to
 * retain_bytes of others for reuse, largest first. Parent, name and options do not change.
 */
PS_API void ps_region_reset(struct ps_region *region) PS_NOEXCEPT;

/* Returns retained chunks to the source, until at most keep_bytes are retained. Returns the number
 * of bytes it released. O(retained chunks). */
PS_API size_t ps_region_trim_to(struct ps_region *region, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_region_trim_to")
PS_API size_t ps_region_trim(struct ps_region *region, size_t keep_bytes) PS_NOEXCEPT;

/* Changes chunks.first_bytes and chunks.max_bytes of the options for the chunks to come, within the
 * bounds there: the next one has next_bytes, later ones double up to max_bytes. 0 leaves one as it
 * is. The shorter the next chunk, the smaller a block that counts as large. O(1). */
PS_API void ps_region_set_growth(struct ps_region *region, size_t next_bytes,
                                 size_t max_bytes) PS_NOEXCEPT;

/* Changes retain_bytes of the options, 0 as there, and returns retained chunks beyond it. */
PS_API void ps_region_set_retain(struct ps_region *region, size_t retain_bytes) PS_NOEXCEPT;

/* --- Blocks -------------------------------------------------------------------------------- */

/* Out of line; use the functions below. */
PS_API void *ps_region_alloc_slow(struct ps_region *region, size_t bytes, size_t align);
PS_API void *ps_region_realloc_slow(struct ps_region *region, void *block, size_t old_bytes,
                                    size_t new_bytes, size_t align, size_t copy_bytes);
PS_API bool ps_region_free_last_slow(struct ps_region *region, void *block, size_t bytes,
                                     size_t align) PS_NOEXCEPT;
PS_API bool ps_region_free_slow(struct ps_region *region, void *block, size_t bytes,
                                size_t align) PS_NOEXCEPT;

/* Bytes that a block takes: rounded up to its alignment, at most to 16. */
static inline size_t ps_region_block_bytes(size_t bytes, size_t align) {
    size_t unit = align < PS_ALIGN_DEFAULT ? align : PS_ALIGN_DEFAULT;
    return (bytes + unit - 1) & ~(unit - 1);
}

/* True when a block that was allocated so ends at `at`: then it is the newest of its chunk. The
 * first comparison also recognises one with less alignment, which was not rounded up that far. */
static inline bool ps_region_ends_at(const char *block, size_t bytes, size_t align,
                                     const char *at) {
    size_t unit = align < PS_ALIGN_DEFAULT ? align : PS_ALIGN_DEFAULT;
    size_t length = (size_t)((uintptr_t)at - (uintptr_t)block);
    return length == bytes ||
           (length == ps_region_block_bytes(bytes, align) && ((uintptr_t)block & (unit - 1)) == 0);
}

/*
 * A block of `bytes`, aligned to `align`. Both ends of the room are multiples of the unit that
 * blocks are rounded to, so a size that fits before rounding fits after it. With bytes - 1, size 0
 * and sizes that would overflow take the same branch as sizes that do not fit.
 */
static inline __attribute__((malloc, warn_unused_result, alloc_size(2))) void *
ps_region_alloc_aligned(struct ps_region *region, size_t bytes, size_t align) {
    char *at = region->at;
    size_t bad_bits = ((size_t)(uintptr_t)at | align) & (align - 1);
    /* The sum with a small constant cannot overflow, and is needed anyway. */
    bool is_fit =
        __builtin_constant_p(bytes) && bytes - 1 < 65536
            ? (uintptr_t)at + ps_region_block_bytes(bytes, align) <= (uintptr_t)region->end
            : bytes - 1 < (size_t)(region->end - at);
    if (__builtin_expect(bad_bits == 0 && is_fit, 1)) {
        PS_KNOWN(at != NULL);
        region->at = at + ps_region_block_bytes(bytes, align);
        return at;
    }
    return ps_region_alloc_slow(region, bytes, align);
}

/* A block of `bytes`, aligned to 16. */
static inline __attribute__((malloc, warn_unused_result, alloc_size(2))) void *
ps_region_alloc(struct ps_region *region, size_t bytes) {
    return ps_region_alloc_aligned(region, bytes, PS_ALIGN_DEFAULT);
}

/* A block of `bytes` directly after the one before it: for text and bytes. Alignment 1. */
static inline __attribute__((malloc, warn_unused_result, alloc_size(2))) void *
ps_region_alloc_unaligned(struct ps_region *region, size_t bytes) {
    return ps_region_alloc_aligned(region, bytes, 1);
}

/* A zeroed block, aligned to 16. */
static inline __attribute__((malloc, warn_unused_result, alloc_size(2))) void *
ps_region_zalloc(struct ps_region *region, size_t bytes) {
    void *block = ps_region_alloc(region, bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

/* A block for count objects of `bytes`, aligned to `align`; a product that overflows is ENOMEM. */
static inline __attribute__((malloc, warn_unused_result, alloc_size(2, 3))) void *
ps_region_alloc_array(struct ps_region *region, size_t count, size_t bytes, size_t align) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        all = SIZE_MAX; /* refused with ENOMEM */
    }
    return ps_region_alloc_aligned(region, all, align);
}

/* Objects of a type, with its alignment: struct node *n = PS_REGION_NEW(region, struct node, 1);
 */
#define PS_REGION_NEW(region, type, count)                                                         \
    PS_CAST(type *, ps_region_alloc_array((region), (count), sizeof(type), __alignof__(type)))

/*
 * A block as ps_region_alloc_aligned gives it. *starts_chunk: true when it does not lie in the
 * chunk that was current, but begins a chunk, fresh or retained, or is a large block: for callers
 * that have data per chunk. False with NULL. O(1), out of line.
 */
PS_API PS_MALLOC void *ps_region_alloc_reporting(struct ps_region *region, size_t bytes,
                                                 size_t align, bool *starts_chunk);

/* Bytes that are left in the current chunk: a block of as many, unaligned, comes without the
 * source, unless it is so long that it becomes a large one. 0 with PS_DEBUG=malloc. O(1). */
PS_API size_t ps_region_capacity_left(const struct ps_region *region) PS_NOEXCEPT;

/*
 * Frees the newest block. block, bytes, align: as allocated, or as last resized. True: it was the
 * newest of the current chunk (or of one of the two before it), and its memory and the gap in front
 * of it are free; a chunk that has become empty is retained for reuse or returns to the source.
 * False: it was not, or NULL; nothing has changed. Large blocks: see ps_region_free_large.
 */
static inline bool ps_region_free_last_aligned(struct ps_region *region, void *block, size_t bytes,
                                               size_t align) {
    char *start = (char *)block;
    if (__builtin_expect(
            start > region->floor && ps_region_ends_at(start, bytes, align, region->at), 1)) {
        region->at = start;
        return true;
    }
    return ps_region_free_last_slow(region, block, bytes, align);
}

/* The same for blocks that are aligned to 16. */
static inline bool ps_region_free_last(struct ps_region *region, void *block, size_t bytes) {
    return ps_region_free_last_aligned(region, block, bytes, PS_ALIGN_DEFAULT);
}

/* Frees a large block: its chunk returns to the source. False: it is none, or NULL; nothing has
 * changed. block: of this region. Any order, O(1). */
PS_API bool ps_region_free_large(struct ps_region *region, void *block) PS_NOEXCEPT;

/*
 * Frees the newest block, or a large one; false for all others, which remain until the region ends.
 * Unlike ps_region_free_last, it always takes the alignment: its callers free blocks made
 * elsewhere, texts among them. If 16 is passed for a text, the block before it may be mistaken for
 * the newest (see above).
 */
static inline bool ps_region_free(struct ps_region *region, void *block, size_t bytes,
                                  size_t align) {
    char *start = (char *)block;
    if (start > region->floor && ps_region_ends_at(start, bytes, align, region->at)) {
        region->at = start;
        return true;
    }
    return ps_region_free_slow(region, block, bytes, align);
}

/*
 * Resizes a block. In place: the newest block while its chunk has room, larger or smaller; a large
 * block within its pages; any block that shrinks (the memory of one that is not the newest is lost
 * until reset). Otherwise a new block with the old contents, and the old one is freed if it can be.
 * block: NULL allocates. old_bytes, align: as allocated or last resized. O(1) in place,
 * O(old_bytes) otherwise. NULL: ENOMEM, the old block as it was.
 */
static inline __attribute__((warn_unused_result)) void *
ps_region_realloc_aligned(struct ps_region *region, void *block, size_t old_bytes, size_t new_bytes,
                          size_t align) {
    char *start = (char *)block;
    size_t bad_bits = ((size_t)(uintptr_t)start | align) & (align - 1);
    if (__builtin_expect(start >= region->floor && bad_bits == 0 &&
                             ps_region_ends_at(start, old_bytes, align, region->at) &&
                             new_bytes - 1 < (size_t)(region->end - start),
                         1)) {
        region->at = start + ps_region_block_bytes(new_bytes, align);
        return block;
    }
    return ps_region_realloc_slow(region, block, old_bytes, new_bytes, align, old_bytes);
}

/* The same for blocks that are aligned to 16. */
static inline __attribute__((warn_unused_result)) void *
ps_region_realloc(struct ps_region *region, void *block, size_t old_bytes, size_t new_bytes) {
    return ps_region_realloc_aligned(region, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT);
}

/* The same, aligned to 16, for a block whose contents are not needed any more. O(1). */
static inline __attribute__((warn_unused_result)) void *
ps_region_realloc_nocopy(struct ps_region *region, void *block, size_t old_bytes,
                         size_t new_bytes) {
    return ps_region_realloc_slow(region, block, old_bytes, new_bytes, PS_ALIGN_DEFAULT, 0);
}

/* --- Copies and texts: alignment 1, but memdup 16. O(length). ------------------------------- */

PS_API PS_MALLOC char *ps_region_strdup(struct ps_region *region, const char *text);
/* At most length_max bytes of text, and a 0. */
PS_API PS_MALLOC char *ps_region_strndup(struct ps_region *region, const char *text,
                                         size_t length_max);
PS_API PS_MALLOC void *ps_region_memdup(struct ps_region *region, const void *bytes, size_t count);

/* The texts one after another, and a 0. The arguments end with (char *)NULL; if `first` is
 * NULL, the text is empty and what follows is not read. */
PS_API PS_MALLOC char *ps_region_strcat(struct ps_region *region, const char *first, ...)
    __attribute__((sentinel));

/*
 * A formatted text. Written once, in place, if it fits into the current chunk; a text that does not
 * is measured and written again. NULL: ENOMEM, or the errno of vsnprintf for a bad format. Its
 * block has strlen + 1 bytes.
 */
PS_API PS_PRINTF(2, 3) char *ps_region_printf(struct ps_region *region, const char *format, ...);
PS_API PS_PRINTF(2, 0) char *ps_region_vprintf(struct ps_region *region, const char *format,
                                               va_list arguments);

/* --- Cleanups ------------------------------------------------------------------------------ */

typedef void ps_region_function(void *argument);
struct ps_region_cleanup; /* a handle; valid until the cleanup has run or was cancelled */

/*
 * Registers function(argument), to be called when the region is reset or destroyed: after the
 * children, the newest cleanup first. A cleanup may register others; they run next. NULL: ENOMEM.
 */
PS_API struct ps_region_cleanup *ps_region_on_destroy(struct ps_region *region,
                                                      ps_region_function *function, void *argument);

/* The same, before the children are destroyed. */
PS_API struct ps_region_cleanup *
ps_region_on_destroy_early(struct ps_region *region, ps_region_function *function, void *argument);

/* Forgets a cleanup. Its record is used again: registering and cancelling in turn costs no memory.
 */
PS_API void ps_region_cancel(struct ps_region *region,
                             struct ps_region_cleanup *cleanup) PS_NOEXCEPT;

/* Runs a cleanup now, and not again. */
PS_API void ps_region_run_now(struct ps_region *region, struct ps_region_cleanup *cleanup);

/* Closes fd with the region. NULL: ENOMEM; fd is still the caller's. */
PS_API struct ps_region_cleanup *ps_region_own_fd(struct ps_region *region, int fd);

/* Unlinks path (copied) and closes fd with the region. A missing path is no error. */
PS_API struct ps_region_cleanup *ps_region_own_tmpfile(struct ps_region *region, int fd,
                                                       const char *path);

/* Closes (and unlinks) an owned descriptor now. Returns the result of close; -1 and EBADF when the
 * region does not own it. O(cleanups); ps_region_run_now is O(1). */
PS_API int ps_region_close_fd(struct ps_region *region, int fd) PS_NOEXCEPT;

/* --- Trees --------------------------------------------------------------------------------- */

/*
 * Moves a region under another parent, or with NULL under none. False: EINVAL when parent is the
 * region or one of its descendants, EBUSY while the region is being destroyed. O(depth).
 */
PS_API bool ps_region_set_parent(struct ps_region *region, struct ps_region *parent) PS_NOEXCEPT;

/* NULL when it has none. */
PS_API struct ps_region *ps_region_parent(const struct ps_region *region) PS_NOEXCEPT;

/* True when `ancestor` is `region` or one of its ancestors: then allocations from `ancestor` live
 * at least as long. O(depth). */
PS_API bool ps_region_is_ancestor(const struct ps_region *ancestor,
                                  const struct ps_region *region) PS_NOEXCEPT;

/* --- Data, names, figures ------------------------------------------------------------------ */

/*
 * Attaches a value to the region, to be found by its key. key: not copied; keys are compared as
 * text. destructor: called with the value when it is replaced, and after the cleanups when the
 * region is reset or destroyed; NULL for none. False: ENOMEM; nothing has changed. O(keys).
 */
PS_API bool ps_region_set_data(struct ps_region *region, const char *key, void *value,
                               ps_region_function *destructor);
/* NULL when there is none. O(keys). */
PS_API void *ps_region_get_data(const struct ps_region *region, const char *key) PS_NOEXCEPT;

PS_API const char *ps_region_name(const struct ps_region *region) PS_NOEXCEPT;
/* name: not copied. */
PS_API void ps_region_set_name(struct ps_region *region, const char *name) PS_NOEXCEPT;

/* Lists the region in the registry of poolshim/registry.h, until it is destroyed; does nothing if
 * it is listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_region_enlist(struct ps_region *region) PS_NOEXCEPT;

struct ps_region_stats {
    size_t used_bytes;       /* of blocks, rounding and gaps included */
    size_t reserved_bytes;   /* of chunks from the source; a caller's buffer is not counted */
    size_t peak_bytes;       /* the maximum of reserved_bytes */
    size_t waiting_bytes;    /* of reserved_bytes: empty chunks retained for reuse */
    size_t chunk_count;      /* in use, the first included */
    size_t large_count;      /* large blocks */
    size_t child_count;      /* children, not their children */
    size_t next_chunk_bytes; /* length of the next chunk */
};
/* Statistics of the region alone. O(chunks + large blocks + children). */
PS_API void ps_region_stats(const struct ps_region *region,
                            struct ps_region_stats *stats) PS_NOEXCEPT;

/* True when the address lies in memory that the region has allocated and not freed.
 * O(chunks + large blocks). */
PS_API bool ps_region_owns(const struct ps_region *region, const void *address) PS_NOEXCEPT;

/* Verifies what PS_DEBUG=check does at a reset, and changes nothing; without it does nothing. A
 * breach ends the program with a line. O(blocks). */
PS_API void ps_region_check(const struct ps_region *region) PS_NOEXCEPT;

/* Tells the checks that the calling thread uses the region from now on. The program must have
 * synchronised the threads before. */
PS_API void ps_region_adopt(struct ps_region *region) PS_NOEXCEPT;

PS_END_DECLS

#endif
