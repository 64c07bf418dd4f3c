/* SPDX-License-Identifier: MIT */
/*
 * The aligned family. POSIX leaves a choice in places; as in glibc, posix_memalign sets errno too
 * if memory is exhausted, and only then; memalign and aligned_alloc round an odd alignment up.
 */
#include "shim/entry.h"

#include "pools/engine/os/os.h"

#include <malloc.h>
#include <stdlib.h>

#define ALIGN_LIMIT ((size_t)1 << 63)

PS_EXPORT int posix_memalign(void **result, size_t align, size_t size) {
    if (!ps_is_power_of_two(align) || align % sizeof(void *) != 0) {
        return EINVAL;
    }
    void *block = ps_block_alloc_aligned(size, align);
    if (block == NULL) {
        return ENOMEM; /* and so is errno */
    }
    *result = block;
    return 0;
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

PS_EXPORT void *valloc(size_t size) { return ps_block_alloc_aligned(size, ps_os_page_bytes()); }

PS_EXPORT void *pvalloc(size_t size) {
    size_t page_bytes = ps_os_page_bytes();
    size_t rounded = ps_round_up(size, page_bytes);
    if (rounded < size) {
        errno = ENOMEM;
        return NULL;
    }
    return ps_block_alloc_aligned(ps_max(rounded, page_bytes), page_bytes);
}

PS_EXPORT_ALIAS(aligned_alloc, memalign);
PS_EXPORT_ALIAS(__libc_memalign, memalign);
PS_EXPORT_ALIAS(__libc_valloc, valloc);
PS_EXPORT_ALIAS(__libc_pvalloc, pvalloc);
PS_EXPORT_ALIAS(__posix_memalign, posix_memalign);
