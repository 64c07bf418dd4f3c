/* SPDX-License-Identifier: MIT */
/*
 * See exhausted.h. Each such request has searched all that a refill searches, so it is slow. No
 * locks of its own.
 */
#include "pools/engine/heap/exhausted.h"

#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"

#include <errno.h>

uint32_t ps_exhausted_x_has_lengthened;

PS_COLD void *ps_exhausted_note(void *block) {
    if (block != NULL) {
        /* relaxed: a thread that gets the block gets this, too. */
        ps_store_relaxed(&ps_exhausted_x_has_lengthened, 1u);
    } else {
        errno = ENOMEM;
    }
    return block;
}

/* A block of a class or the nearest longer one that has any: from its bin, or by the hook, which
 * knows what the mode counts. */
static void *take_present(struct ps_heap *heap, uint32_t class_index, size_t bytes, size_t align) {
    void *block = NULL;
    heap->is_exhausted = true;
    while (block == NULL && class_index != PS_CLASS_NONE) { /* ends: at the last class */
        block = ps_mode.hook.take(heap, class_index);
        if (block == NULL) {
            block = ps_mode.hook.refill(heap, &heap->bins[class_index], bytes);
        }
        class_index = ps_exhausted_next(class_index, align);
    }
    heap->is_exhausted = false;
    return block;
}

PS_COLD void *ps_exhausted_take_any(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    return take_present(heap, class_index, bytes, ps_exhausted_align(class_index, bytes));
}

PS_COLD void *ps_exhausted_take_longer(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    size_t align = ps_exhausted_align(class_index, bytes);
    void *block = take_present(heap, ps_exhausted_next(class_index, align), bytes, align);
    return block == NULL && ps_medium_is_size(bytes, align) ? ps_medium_alloc(bytes, align, NULL)
                                                            : block;
}

PS_COLD void *ps_exhausted_take_medium(size_t bytes, size_t align) {
    return ps_medium_is_size(bytes, align) ? ps_medium_alloc(bytes, align, NULL) : NULL;
}
