/* SPDX-License-Identifier: MIT */
/*
 * See block.h.
 */
#include "pools/engine/heap/block.h"

#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/length.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/bytes.h"

void *ps_block_zalloc(size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.zalloc(bytes)
                                            : ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
}

void *ps_block_alloc_aligned(size_t bytes, size_t align) {
    if (ps_length_is_usual(bytes, align)) {
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

void *ps_block_move(void *copy, void *block, size_t bytes) {
    if (PS_LIKELY(copy != NULL)) {
        ps_bytes_copy_block(copy, block, ps_min(ps_block_usable(block), bytes));
        ps_heap_free(block);
    }
    return copy;
}

size_t ps_block_length(size_t bytes, size_t align) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_length_of(bytes, align) : 0;
}

size_t ps_block_resize_in_place(void *block, size_t bytes) {
    return PS_LIKELY(ps_engine_may_serve()) ? ps_mode.entry.resize_in_place(block, bytes)
                                            : ps_bootstrap_usable(block);
}
