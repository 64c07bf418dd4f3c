/* SPDX-License-Identifier: MIT */
/*
 * malloc, free, calloc, realloc, the aligned family and the size of a block under libc's names. The
 * fast paths are fast_path.h, inlined.
 */
#include "pools/engine/os/os.h"
#include "shim/entry.h"

#include <malloc.h>
#include <stdlib.h>

#define ALIGN_LIMIT ((size_t)1 << 63)

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

/* ---- the aligned family ---- */

/* POSIX leaves a choice in places; as in glibc, posix_memalign sets errno too if memory is
 * exhausted, and only then; memalign rounds an odd alignment up, and aligned_alloc refuses it, as
 * in glibc since 2.38, and in jemalloc. */

static inline int take_aligned(void **result, size_t align, size_t size) {
    void *block = ps_block_alloc_aligned(size, align);
    if (PS_UNLIKELY(block == NULL)) {
        return ENOMEM; /* and so is errno */
    }
    *result = block;
    return 0;
}

/* For a call site. Not inlined: posix_memalign saves no register more. */
static PS_NOINLINE int take_aligned_at(void **result, size_t align, size_t size, void *site) {
    ps_site_note((uintptr_t)site);
    return take_aligned(result, align, size);
}

PS_EXPORT int posix_memalign(void **result, size_t align, size_t size) {
    if (PS_UNLIKELY(!ps_is_power_of_two(align) || align < sizeof(void *))) {
        return EINVAL;
    }
    return PS_UNLIKELY(ps_site_is_on())
               ? take_aligned_at(result, align, size, __builtin_return_address(0))
               : take_aligned(result, align, size);
}

PS_EXPORT void *memalign(size_t align, size_t size) {
    if (align > ALIGN_LIMIT) {
        errno = EINVAL;
        return NULL;
    }
    if (!ps_is_power_of_two(align)) {
        align = align == 0 ? 1 : (size_t)2 << ps_log2(align);
    }
    return ps_block_alloc_aligned(size, align);
}

PS_EXPORT void *aligned_alloc(size_t align, size_t size) {
    if (!ps_is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    return ps_block_alloc_aligned(size, align);
}

PS_EXPORT void *valloc(size_t size) { return ps_block_alloc_aligned(size, ps_os_page_bytes()); }

void *pvalloc(size_t size); /* glibc alone declares it */
PS_EXPORT void *pvalloc(size_t size) {
    size_t page_bytes = ps_os_page_bytes();
    size_t rounded = ps_round_up(size, page_bytes);
    if (rounded < size) {
        errno = ENOMEM;
        return NULL;
    }
    return ps_block_alloc_aligned(ps_max(rounded, page_bytes), page_bytes);
}

PS_EXPORT_ALIAS(__libc_memalign, memalign);
PS_EXPORT_ALIAS(__libc_valloc, valloc);
PS_EXPORT_ALIAS(__libc_pvalloc, pvalloc);
PS_EXPORT_ALIAS(__posix_memalign, posix_memalign);

/* ---- gperftools' names: shim/tcmalloc.c ---- */

PS_EXPORT_ALIAS(tc_malloc_skip_new_handler, malloc);
PS_EXPORT_ALIAS(tc_free, free);
PS_EXPORT_ALIAS(tc_cfree, free);
PS_EXPORT_ALIAS(tc_free_sized, free_sized);
PS_EXPORT_ALIAS(tc_calloc, calloc);
PS_EXPORT_ALIAS(tc_realloc, realloc);
PS_EXPORT_ALIAS(tc_memalign, memalign);
PS_EXPORT_ALIAS(tc_posix_memalign, posix_memalign);
PS_EXPORT_ALIAS(tc_valloc, valloc);
PS_EXPORT_ALIAS(tc_pvalloc, pvalloc);
PS_EXPORT_ALIAS(tc_malloc_size, malloc_usable_size);
