/* SPDX-License-Identifier: MIT */
/*
 * See exhausted.h.
 */
#include "pools/engine/heap/exhausted.h"

#include "pools/engine/heap/medium_path.h"

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

PS_COLD void *ps_exhausted_take_medium(size_t bytes, size_t align) {
    return ps_medium_is_size(bytes, align) ? ps_medium_alloc(bytes, align, NULL) : NULL;
}
