/* SPDX-License-Identifier: MIT */
/*
 * See block.h.
 */
#include "pools/engine/heap/block.h"

#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/os.h"

void *ps_block_zalloc(size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.zalloc(bytes)
                                            : ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (align <= 16 && (bytes > 8 || align <= 8)) {
        return ps_heap_alloc(bytes);
    }
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.alloc_aligned(bytes, align)
                                            : ps_bootstrap_alloc(bytes, align);
}

size_t ps_block_usable(const void *block) {
    if (block == NULL) {
        return 0;
    }
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.usable(block)
                                            : ps_bootstrap_usable(block);
}

/* A mode that sees each request makes blocks as large as requested: a part of the rest has a
 * canary, or is inaccessible. */
size_t ps_block_good_bytes(size_t bytes, size_t align) {
    if (bytes > (size_t)PTRDIFF_MAX - align) {
        return 0;
    }
    if (!ps_engine_has_started() || !ps_mode.hook.has_fast_alloc) {
        return bytes;
    }
    uint32_t index = align <= 8 ? ps_size_class_of(bytes) : ps_size_class_of_aligned(bytes, align);
    if (index < ps_size_class_count) {
        return ps_size_classes[index].block_bytes;
    }
    if (ps_medium_is_size(bytes, align)) {
        return ps_medium_pages_for(bytes) << PS_MEDIUM_PAGE_SHIFT;
    }
    return ps_round_up(bytes, ps_os_page_bytes());
}

void *ps_block_resize(void *block, size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.resize(block, bytes)
                                            : ps_bootstrap_resize(block, bytes);
}
