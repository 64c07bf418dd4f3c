/* SPDX-License-Identifier: MIT */
/*
 * See mimalloc.h: mimalloc's functions that allocate, resize and free. Most exist twice: for a
 * given heap, and for the calling thread's. No locks.
 */
#include "shim/mimalloc.h"

#include "shim/entry.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct ps_mi_heap heap_type;

#define DEFAULT_ALIGN 16
#define OFFSET_ALIGN_LIMIT ((size_t)64 << 10) /* with an offset that is no multiple of it */

/* ---- blocks ---- */

size_t ps_mi_usable(const void *block) {
    const char *start = ps_mi_start_of(block);
    return ps_block_usable(start) - (size_t)((const char *)block - start);
}

bool ps_mi_multiply(size_t count, size_t bytes, size_t *product) {
    if (PS_UNLIKELY(__builtin_mul_overflow(count, bytes, product))) {
        ps_mi_fail(ENOMEM, EOVERFLOW);
        return false;
    }
    return true;
}

/* Zeroes the block from so many bytes on. */
static void zero_from(char *block, size_t bytes) {
    size_t usable = ps_mi_usable(block);
    if (bytes < usable) {
        memset(block + bytes, 0, usable - bytes);
    }
}

static bool is_valid(const struct ps_mi_request *request, bool has_offset) {
    if (!ps_is_power_of_two(request->align) ||
        (has_offset && request->align > OFFSET_ALIGN_LIMIT)) {
        ps_mi_fail(EINVAL, EOVERFLOW);
        return false;
    }
    if (request->bytes > PTRDIFF_MAX - request->align) {
        ps_mi_fail(ENOMEM, EOVERFLOW);
        return false;
    }
    return true;
}

/* As if by `align` more bytes, of which those before the block remain unused. */
static char *take_with_offset(heap_type *heap, const struct ps_mi_request *request) {
    struct ps_mi_request larger = *request;
    larger.bytes += request->align;
    char *start = ps_mi_take(heap, &larger, true);
    return start != NULL ? start + (-request->offset & (request->align - 1)) : NULL;
}

void *ps_mi_alloc(heap_type *heap, const struct ps_mi_request *request) {
    bool has_offset = (request->offset & (request->align - 1)) != 0;
    if (PS_UNLIKELY(!is_valid(request, has_offset))) {
        return NULL;
    }
    char *block = has_offset ? take_with_offset(heap, request) : ps_mi_take(heap, request, false);
    if (PS_UNLIKELY(block == NULL)) {
        ps_mi_fail(errno, ENOMEM);
        return NULL;
    }
    if (request->is_zeroed) {
        zero_from(block, request->bytes);
    }
    return block;
}

/* In place, as mimalloc: it fits, and the rest is less than half. */
static bool is_kept(const heap_type *heap, const char *block, size_t usable,
                    const struct ps_mi_request *request) {
    bool is_aligned = (((uintptr_t)block + request->offset) & (request->align - 1)) == 0;
    bool fits = request->bytes <= usable && request->bytes >= usable / 2 && request->bytes > 0;
    return is_aligned && fits && ps_mi_is_in(heap, ps_mi_start_of(block));
}

static char *resized(heap_type *heap, char *block, size_t usable,
                     const struct ps_mi_request *request) {
    char *start = ps_mi_start_of(block);
    bool is_default = request->align <= (request->bytes > 8 ? DEFAULT_ALIGN : sizeof(void *));
    bool is_plain = start == block && is_default && request->offset == 0;
    if (is_kept(heap, block, usable, request)) {
        return block;
    }
    if (is_plain && ps_mi_is_in(heap, block) && request->bytes <= PTRDIFF_MAX) {
        char *moved = ps_block_resize(block, ps_max(request->bytes, 1));
        if (moved == NULL) {
            ps_mi_fail(errno, ENOMEM);
        }
        return moved;
    }
    struct ps_mi_request other = *request;
    other.is_zeroed = false;
    char *fresh = ps_mi_alloc(heap, &other);
    if (fresh != NULL) {
        memcpy(fresh, block, ps_min(usable, request->bytes));
        ps_heap_free(start);
    }
    return fresh;
}

void *ps_mi_resize(heap_type *heap, void *block, const struct ps_mi_request *request) {
    if (block == NULL) {
        return ps_mi_alloc(heap, request);
    }
    if (!ps_is_power_of_two(request->align)) {
        ps_mi_fail(EINVAL, EOVERFLOW);
        return NULL;
    }
    size_t usable = ps_mi_usable(block);
    char *result = resized(heap, block, usable, request);
    if (result != NULL && request->is_zeroed) {
        zero_from(result, ps_min(usable, request->bytes));
    }
    return result;
}

static void *plain(heap_type *heap, size_t bytes, bool is_zeroed) {
    struct ps_mi_request request = {bytes, 1, 0, is_zeroed};
    return ps_mi_alloc(heap, &request);
}

static void *many(heap_type *heap, size_t count, size_t bytes, bool is_zeroed) {
    size_t product;
    return ps_mi_multiply(count, bytes, &product) ? plain(heap, product, is_zeroed) : NULL;
}

static void *aligned(heap_type *heap, size_t bytes, size_t align, size_t offset, bool is_zeroed) {
    struct ps_mi_request request = {bytes, align, offset, is_zeroed};
    return ps_mi_alloc(heap, &request);
}

static void *many_aligned(heap_type *heap, size_t count, size_t bytes, size_t align,
                          size_t offset) {
    size_t product;
    return ps_mi_multiply(count, bytes, &product) ? aligned(heap, product, align, offset, true)
                                                  : NULL;
}

static void *resize(heap_type *heap, void *block, size_t bytes, bool is_zeroed) {
    struct ps_mi_request request = {bytes, 1, 0, is_zeroed};
    return ps_mi_resize(heap, block, &request);
}

static void *resize_many(heap_type *heap, void *block, size_t count, size_t bytes, bool is_zeroed) {
    size_t product;
    return ps_mi_multiply(count, bytes, &product) ? resize(heap, block, product, is_zeroed) : NULL;
}

static void *resize_aligned(heap_type *heap, void *block, size_t bytes, size_t align, size_t offset,
                            bool is_zeroed) {
    bool is_usual = align <= sizeof(uintptr_t); /* of any block, as in mimalloc */
    struct ps_mi_request request = {bytes, is_usual ? 1 : align, is_usual ? 0 : offset, is_zeroed};
    return ps_mi_resize(heap, block, &request);
}

static void *resize_many_aligned(heap_type *heap, void *block, size_t count, size_t bytes,
                                 size_t align, size_t offset) {
    size_t product;
    return ps_mi_multiply(count, bytes, &product)
               ? resize_aligned(heap, block, product, align, offset, true)
               : NULL;
}

static void *resize_or_free(heap_type *heap, void *block, size_t bytes) {
    void *result = resize(heap, block, bytes, false);
    if (result == NULL && block != NULL) {
        ps_heap_free(ps_mi_start_of(block));
    }
    return result;
}

/* ---- texts ---- */

static char *copy(heap_type *heap, const void *text, size_t bytes, size_t end_bytes) {
    char *block = plain(heap, bytes + end_bytes, false);
    if (block != NULL) {
        memcpy(block, text, bytes);
        memset(block + bytes, 0, end_bytes);
    }
    return block;
}

static void *copy_text(heap_type *heap, const char *text) {
    return text != NULL ? copy(heap, text, strlen(text), 1) : NULL;
}

static void *copy_some(heap_type *heap, const char *text, size_t bytes) {
    return text != NULL ? copy(heap, text, strnlen(text, bytes), 1) : NULL;
}

static void *copy_path(heap_type *heap, const char *name, char *resolved) {
    char path[PATH_MAX + 1];
    if (resolved != NULL) {
        return realpath(name, resolved);
    }
    return copy_text(heap, realpath(name, path));
}

/* ---- entry points that exist twice ---- */

#define UNPACK(...) __VA_ARGS__

/* mi_heap_NAME(heap, parameters) and mi_NAME(parameters), which return `result`. */
#define TWICE(name, parameters, result)                                                            \
    void *mi_heap_##name(heap_type *heap, UNPACK parameters);                                      \
    void *mi_##name(UNPACK parameters);                                                            \
    PS_EXPORT void *mi_heap_##name(heap_type *heap, UNPACK parameters) { return result; }          \
    PS_EXPORT void *mi_##name(UNPACK parameters) {                                                 \
        heap_type *heap = ps_mi_default();                                                         \
        return result;                                                                             \
    }

TWICE(malloc, (size_t size), plain(heap, size, false))
TWICE(zalloc, (size_t size), plain(heap, size, true))
TWICE(malloc_small, (size_t size), plain(heap, size, false))
TWICE(mallocn, (size_t count, size_t size), many(heap, count, size, false))
TWICE(calloc, (size_t count, size_t size), many(heap, count, size, true))
TWICE(realloc, (void *block, size_t size), resize(heap, block, size, false))
TWICE(rezalloc, (void *block, size_t size), resize(heap, block, size, true))
TWICE(reallocn, (void *block, size_t count, size_t size),
      resize_many(heap, block, count, size, false))
TWICE(recalloc, (void *block, size_t count, size_t size),
      resize_many(heap, block, count, size, true))
TWICE(reallocf, (void *block, size_t size), resize_or_free(heap, block, size))
TWICE(strdup, (const char *text), copy_text(heap, text))
TWICE(strndup, (const char *text, size_t size), copy_some(heap, text, size))
TWICE(realpath, (const char *name, char *resolved), copy_path(heap, name, resolved))

TWICE(malloc_aligned, (size_t size, size_t align), aligned(heap, size, align, 0, false))
TWICE(malloc_aligned_at, (size_t size, size_t align, size_t offset),
      aligned(heap, size, align, offset, false))
TWICE(zalloc_aligned, (size_t size, size_t align), aligned(heap, size, align, 0, true))
TWICE(zalloc_aligned_at, (size_t size, size_t align, size_t offset),
      aligned(heap, size, align, offset, true))
TWICE(calloc_aligned, (size_t count, size_t size, size_t align),
      many_aligned(heap, count, size, align, 0))
TWICE(calloc_aligned_at, (size_t count, size_t size, size_t align, size_t offset),
      many_aligned(heap, count, size, align, offset))
TWICE(realloc_aligned, (void *block, size_t size, size_t align),
      resize_aligned(heap, block, size, align, 0, false))
TWICE(realloc_aligned_at, (void *block, size_t size, size_t align, size_t offset),
      resize_aligned(heap, block, size, align, offset, false))
TWICE(rezalloc_aligned, (void *block, size_t size, size_t align),
      resize_aligned(heap, block, size, align, 0, true))
TWICE(rezalloc_aligned_at, (void *block, size_t size, size_t align, size_t offset),
      resize_aligned(heap, block, size, align, offset, true))
TWICE(recalloc_aligned, (void *block, size_t count, size_t size, size_t align),
      resize_many_aligned(heap, block, count, size, align, 0))
TWICE(recalloc_aligned_at, (void *block, size_t count, size_t size, size_t align, size_t offset),
      resize_many_aligned(heap, block, count, size, align, offset))

PS_EXPORT_ALIAS(mi_aligned_recalloc, mi_recalloc_aligned);
PS_EXPORT_ALIAS(mi_aligned_offset_recalloc, mi_recalloc_aligned_at);

/* mimalloc has it without a heap. */
void *mi_zalloc_small(size_t size);
PS_EXPORT_ALIAS(mi_zalloc_small, mi_zalloc);

/* ---- free and sizes ---- */

void mi_free(void *block);
void mi_cfree(void *block);
void mi_free_size(void *block, size_t size);
void mi_free_size_aligned(void *block, size_t size, size_t align);
void mi_free_aligned(void *block, size_t align);
size_t mi_usable_size(const void *block);
size_t mi_good_size(size_t size);
void *mi_expand(void *block, size_t size);
bool mi_is_in_heap_region(const void *address);

PS_EXPORT void mi_free(void *block) { ps_heap_free(ps_mi_start_of(block)); }

PS_EXPORT void mi_cfree(void *block) {
    if (mi_is_in_heap_region(block)) {
        ps_heap_free(ps_mi_start_of(block));
    }
}

PS_EXPORT void mi_free_size(void *block, size_t size) {
    void *start = ps_mi_start_of(block);
    if (start == block) {
        ps_expect_size(block, size, 1);
    }
    ps_heap_free(start);
}

PS_EXPORT void mi_free_size_aligned(void *block, size_t size, size_t align) {
    void *start = ps_mi_start_of(block);
    if (start == block) {
        ps_expect_size(block, size, align);
    }
    ps_heap_free(start);
}

PS_EXPORT void mi_free_aligned(void *block, size_t align) {
    (void)align;
    ps_heap_free(ps_mi_start_of(block));
}

PS_EXPORT size_t mi_usable_size(const void *block) { return ps_mi_usable(block); }
PS_EXPORT_ALIAS(mi_malloc_size, mi_usable_size);
PS_EXPORT_ALIAS(mi_malloc_usable_size, mi_usable_size);

PS_EXPORT size_t mi_good_size(size_t size) { return ps_block_length(size, 1); }
PS_EXPORT_ALIAS(mi_malloc_good_size, mi_good_size);

PS_EXPORT void *mi_expand(void *block, size_t size) {
    return block != NULL && size <= ps_mi_usable(block) ? block : NULL;
}
PS_EXPORT_ALIAS(mi__expand, mi_expand);
