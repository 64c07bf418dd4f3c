/* SPDX-License-Identifier: MIT */
/*
 * See slab.h: reports of misuse.
 */
#include "pools/engine/front/slab.h"

#include "pools/engine/os/fatal.h"

bool ps_slab_has_tags = true;

PS_COLD void ps_slab_misuse(const struct ps_slab *slab, const void *address,
                            enum ps_misuse_call call) {
    enum ps_misuse_state state =
        ps_slab_has_block(slab, address) ? PS_MISUSE_OF_FREE : PS_MISUSE_OF_INTERIOR;
    ps_fatal_block(ps_misuse_words(call, state), address, ps_slab_class(slab)->block_bytes);
}

PS_COLD void ps_slab_overwritten(const void *block) {
    ps_fatal_block(PS_MISUSE_OVERWRITTEN, block, ps_slab_class(ps_slab_of(block))->block_bytes);
}
