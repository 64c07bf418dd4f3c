/* SPDX-License-Identifier: MIT */
/*
 * See detached.h. Before relocation pointers to functions are invalid, so the bootstrap allocator
 * is called by name. Afterwards the engine is started first; then the mode's rows can be used.
 */
#include "pools/engine/heap/detached.h"

#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/exited.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/fatal.h"

/* False before relocation; otherwise starts the engine if necessary. */
static bool is_started(void) {
    if (PS_UNLIKELY(!ps_bootstrap_is_over())) {
        return false;
    }
    if (PS_UNLIKELY(!ps_engine_has_started())) {
        ps_engine_start();
        ps_thread_enter(); /* again: the start may have made calls of the program */
    }
    return true;
}

PS_COLD void *ps_detached_alloc(size_t bytes) {
    if (!is_started()) {
        return ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.alloc(heap, bytes) : ps_exited_alloc(bytes);
}

PS_COLD void *ps_detached_zalloc(size_t bytes) {
    if (!is_started()) {
        return ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.zalloc(heap, bytes) : ps_exited_zalloc(bytes);
}

PS_COLD void *ps_detached_alloc_aligned(size_t bytes, size_t align) {
    if (!is_started()) {
        return ps_bootstrap_alloc(bytes, align);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.alloc_aligned(heap, bytes, align)
                        : ps_exited_alloc_aligned(bytes, align);
}

PS_COLD void ps_detached_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    if (block == NULL) {
        return;
    }
    if (is_started()) {
        ps_mode.entry.free_block(span, block, owner_key);
    } else if (ps_bootstrap_usable(block) == 0) {
        ps_fatal_address("free of foreign pointer", block);
    }
}

PS_COLD void *ps_detached_resize(void *block, size_t bytes) {
    return is_started() ? ps_mode.entry.resize(block, bytes) : ps_bootstrap_resize(block, bytes);
}

PS_COLD size_t ps_detached_usable(const void *block) {
    return is_started() ? ps_mode.entry.usable(block) : ps_bootstrap_usable(block);
}
