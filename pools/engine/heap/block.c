/* SPDX-License-Identifier: MIT */
/*
 * See block.h.
 */
#include "pools/engine/heap/block.h"

#include "pools/engine/base/bits.h"
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

/* True for an alignment that the blocks of every class have. */
static bool is_usual(size_t bytes, size_t align) {
    return align <= 16 && (bytes > 8 || align <= 8);
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (is_usual(bytes, align)) {
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

void *ps_block_resize(void *block, size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.resize(block, bytes)
                                            : ps_bootstrap_resize(block, bytes);
}

size_t ps_block_length(size_t bytes, size_t align) {
    if (PS_UNLIKELY(bytes > PS_BLOCK_BYTES_MOST || align > PS_BLOCK_BYTES_MOST ||
                    !ps_engine_may_serve())) {
        return 0;
    }
    bytes = ps_max(bytes, 1);
    uint32_t class_index =
        is_usual(bytes, align) ? ps_size_class_of(bytes) : ps_size_class_of_aligned(bytes, align);
    if (class_index != PS_CLASS_NONE) {
        return ps_size_classes[class_index].block_bytes;
    }
    return ps_medium_is_size(bytes, align) ? ps_medium_pages_for(bytes) << PS_MEDIUM_PAGE_SHIFT
                                           : ps_round_up(bytes, ps_os_page_bytes());
}

size_t ps_block_resize_in_place(void *block, size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.resize_in_place(block, bytes)
                                            : ps_bootstrap_usable(block);
}
