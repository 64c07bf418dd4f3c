/* SPDX-License-Identifier: MIT */
/*
 * The floor: a preloadable malloc that does the least a malloc can do. malloc moves a pointer, free
 * does nothing at all. It is the practical limit to compare real allocators with, not a malloc for
 * use: freed memory is not reused.
 *
 * The trick that makes it correct without headers: one big reservation of address space, cut into
 * one region per power of two from 8 bytes up. A block of 2^k bytes comes from region k, so
 *   - its size can be read from its address (realloc and malloc_usable_size need that),
 *   - it is aligned to its own size (so memalign is malloc of at least the alignment),
 *   - 8-byte blocks lie 8 bytes apart and everything larger is 16-aligned.
 * Each thread bumps through a window of each region; a window is granted by one atomic add.
 *
 * Fresh windows are zero, so calloc clears nothing, until floor_reuse() (see floor.h) was called
 * once. Environment: FLOOR_THP=1 advises huge pages. Called by the program that it is
 * preloaded into. Calls mmap and madvise only. No locks.
 */
#include "lib/floor.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Region k of 64 GiB has blocks of 2^(k + CLASS_SHIFT_MIN) bytes; the last ones have one block.
 */
enum { CLASS_SHIFT_MIN = 3, CLASS_SHIFT_MAX = 36, REGION_SHIFT = 36 };
enum { CLASS_COUNT = CLASS_SHIFT_MAX - CLASS_SHIFT_MIN + 1 };
#define REGION_BYTES ((size_t)1 << REGION_SHIFT)
#define WINDOW_BYTES ((size_t)256 << 10)
#define FLOOR_EXPORT __attribute__((visibility("default")))

struct window {
    char *cur; /* next block; owner only */
    char *end; /* cur <= end, and end - cur is a multiple of the block size */
};

static _Thread_local struct window windows[CLASS_COUNT] __attribute__((tls_model("initial-exec")));
static _Atomic size_t granted_bytes[CLASS_COUNT]; /* of each region, from its start */
static _Atomic(char *) regions;                   /* start of region 0, or NULL before first use */
static atomic_bool has_reused;                    /* windows may be dirty from now on */

_Static_assert(sizeof(windows) <= 1024, "initial-exec TLS is scarce");

__attribute__((cold, noreturn)) static void die(const char *message) {
    ssize_t ignored = write(2, message, strlen(message));
    (void)ignored;
    abort();
}

static bool wants_huge_pages(void) {
    /* Before libc has started there may be no environment yet. */
    const char *value = environ == NULL ? NULL : getenv("FLOOR_THP");
    return value != NULL && strcmp(value, "1") == 0;
}

/* Reserves all regions, aligned to a region. Two threads may race here; one reservation wins. */
__attribute__((cold, noinline)) static char *reserve_regions(void) {
    size_t bytes = (size_t)(CLASS_COUNT + 1) << REGION_SHIFT;
    char *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        die("floor: cannot reserve address space (RLIMIT_AS, or vm.overcommit_memory=2)\n");
    }
    uintptr_t first = ((uintptr_t)mapping + REGION_BYTES - 1) & ~(REGION_BYTES - 1);
    char *start = mapping + (first - (uintptr_t)mapping);
    if (wants_huge_pages()) {
        madvise(start, (size_t)CLASS_COUNT << REGION_SHIFT, MADV_HUGEPAGE);
    }
    char *expected = NULL;
    if (!atomic_compare_exchange_strong(&regions, &expected, start)) {
        munmap(mapping, bytes);
        return expected;
    }
    return start;
}

/* Grants the calling thread a new window of the class and takes its first block. */
__attribute__((cold, noinline)) static void *block_from_new_window(unsigned class) {
    /* Acquire is not needed: the mapping itself is visible to every thread once mmap returned. */
    char *start = atomic_load_explicit(&regions, memory_order_relaxed);
    if (start == NULL) {
        start = reserve_regions();
    }
    size_t block_bytes = (size_t)1 << (class + CLASS_SHIFT_MIN);
    size_t grant_bytes = block_bytes > WINDOW_BYTES ? block_bytes : WINDOW_BYTES;
    /* Relaxed: only the number matters, no memory is published with it. */
    if (atomic_load_explicit(&granted_bytes[class], memory_order_relaxed) >
        REGION_BYTES - grant_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    size_t offset =
        atomic_fetch_add_explicit(&granted_bytes[class], grant_bytes, memory_order_relaxed);
    if (offset > REGION_BYTES - grant_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = start + ((size_t) class << REGION_SHIFT) + offset;
    windows[class] = (struct window){.cur = block + block_bytes, .end = block + grant_bytes};
    return block;
}

/* Any size from 0 up; NULL and ENOMEM above 64 GiB. */
static inline void *block_new(size_t bytes) {
    if (bytes > (size_t)1 << CLASS_SHIFT_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    unsigned class = bytes <= 8 ? 0 : 64 - (unsigned)__builtin_clzl(bytes - 1) - CLASS_SHIFT_MIN;
    struct window *window = &windows[class];
    char *block = window->cur;
    if (block == window->end) {
        return block_from_new_window(class);
    }
    window->cur = block + ((size_t)1 << (class + CLASS_SHIFT_MIN));
    return block;
}

/* The size of the block at `block`, from its address alone; 0 for a foreign pointer. */
static size_t block_bytes_of(const void *block) {
    uintptr_t start = (uintptr_t)atomic_load_explicit(&regions, memory_order_relaxed);
    size_t class = ((uintptr_t)block - start) >> REGION_SHIFT;
    return start == 0 || class >= CLASS_COUNT ? 0 : (size_t)1 << (class + CLASS_SHIFT_MIN);
}

static inline bool is_power_of_two(size_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static void *block_new_aligned(size_t alignment, size_t bytes) {
    return block_new(bytes > alignment ? bytes : alignment);
}

/* The fast path is the first five lines: one test of the size, one of the window, one add. */
FLOOR_EXPORT void *malloc(size_t bytes) {
    struct window *window = &windows[0];
    char *block = window->cur;
    if (__builtin_expect(bytes <= 8 && block != window->end, 1)) {
        window->cur = block + 8;
        return block;
    }
    return block_new(bytes);
}

FLOOR_EXPORT void free(void *block) { (void)block; }

FLOOR_EXPORT void *calloc(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = block_new(total);
    /* Relaxed: a thread that reuses memory set the flag itself, or synchronised with the one that
     * did.
     */
    if (block != NULL && atomic_load_explicit(&has_reused, memory_order_relaxed)) {
        memset(block, 0, total);
    }
    return block;
}

FLOOR_EXPORT void *realloc(void *block, size_t bytes) {
    if (block == NULL) {
        return block_new(bytes);
    }
    if (bytes == 0) {
        return NULL;
    }
    size_t old_bytes = block_bytes_of(block);
    if (old_bytes == 0) {
        die("floor: realloc of a pointer that is not ours\n");
    }
    if (bytes <= old_bytes) {
        return block;
    }
    void *bigger = block_new(bytes);
    return bigger == NULL ? NULL : memcpy(bigger, block, old_bytes);
}

FLOOR_EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0) {
        return EINVAL;
    }
    int saved_errno = errno;
    void *block = block_new_aligned(alignment, bytes);
    errno = saved_errno;
    if (block == NULL) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}

FLOOR_EXPORT void *memalign(size_t alignment, size_t bytes) {
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return block_new_aligned(alignment, bytes);
}

FLOOR_EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

FLOOR_EXPORT void *valloc(size_t bytes) {
    return block_new_aligned((size_t)sysconf(_SC_PAGESIZE), bytes);
}

FLOOR_EXPORT void *pvalloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return block_new_aligned(page, (bytes + page - 1) & ~(page - 1));
}

FLOOR_EXPORT size_t malloc_usable_size(void *block) {
    return block == NULL ? 0 : block_bytes_of(block);
}

FLOOR_EXPORT void floor_reuse(void *first, void *end) {
    size_t block_bytes = block_bytes_of(first);
    if (block_bytes == 0) {
        die("floor: floor_reuse of memory that is not ours\n");
    }
    unsigned class = (unsigned)__builtin_ctzl(block_bytes) - CLASS_SHIFT_MIN;
    atomic_store_explicit(&has_reused, true, memory_order_relaxed);
    windows[class] = (struct window){.cur = first, .end = end};
}
