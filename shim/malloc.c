/* SPDX-License-Identifier: MIT */
/*
 * malloc, free, calloc, realloc and the size of a block under libc's names. The fast paths are
 * fast_path.h, inlined.
 */
#include "shim/entry.h"

#include <malloc.h>
#include <stdlib.h>

PS_HOT_EXPORT void *malloc(size_t size) { return ps_heap_alloc(size); }

PS_HOT_EXPORT void free(void *block) { ps_heap_free(block); }

PS_EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    return ps_multiply(count, size, &bytes) ? ps_block_zalloc(bytes) : NULL;
}

/* realloc(p, 0) frees and returns NULL, as glibc's does. */
PS_EXPORT void *realloc(void *block, size_t size) {
    if (block == NULL) {
        return ps_heap_alloc(size);
    }
    if (size == 0) {
        ps_heap_free(block);
        return NULL;
    }
    return ps_block_resize(block, size);
}

PS_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    return ps_multiply(count, size, &bytes) ? realloc(block, bytes) : NULL;
}

PS_EXPORT size_t malloc_usable_size(void *block) { return ps_block_usable(block); }

void free_sized(void *block, size_t size); /* libc declares it from C23 on */
void free_aligned_sized(void *block, size_t align, size_t size);

/* C23: the caller states the size, which is checked against the block where blocks are hardened.
 */
PS_EXPORT void free_sized(void *block, size_t size) {
    ps_expect_size(block, size, 1);
    ps_heap_free(block);
}

PS_EXPORT void free_aligned_sized(void *block, size_t align, size_t size) {
    ps_expect_size(block, size, align);
    ps_heap_free(block);
}

PS_EXPORT_ALIAS(cfree, free);
PS_EXPORT_ALIAS(__libc_malloc, malloc);
PS_EXPORT_ALIAS(__libc_free, free);
PS_EXPORT_ALIAS(__libc_calloc, calloc);
PS_EXPORT_ALIAS(__libc_realloc, realloc);
