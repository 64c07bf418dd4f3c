/* SPDX-License-Identifier: MIT */
/*
 * See misuse.h.
 */
#include "pools/engine/heap/misuse.h"

#include "pools/engine/heap/foreign.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/os/fatal.h"

enum state { FREE, INTERIOR, FOREIGN, STATES };

static const char *const words[][STATES] = {
    [PS_MISUSE_FREE] = {"double free of", "free of interior pointer", "free of foreign pointer"},
    [PS_MISUSE_REALLOC] = {"realloc of free block", "realloc of interior pointer",
                           "realloc of foreign pointer"},
    [PS_MISUSE_SIZE] = {"size of free block", "size of interior pointer",
                        "size of foreign pointer"},
};

PS_COLD void ps_misuse(const char *what, const struct ps_span *span, const void *block) {
    ps_fatal_block(what, block, span->block_bytes);
}

PS_COLD void ps_misuse_free(const struct ps_span *span, const void *block) {
    ps_misuse(words[PS_MISUSE_FREE][ps_span_has_block(span, block) ? FREE : INTERIOR], span, block);
}

PS_COLD void ps_misuse_link(const void *block, size_t block_bytes) {
    ps_fatal_block("double free of, or write after free to", block, block_bytes);
}

PS_COLD void ps_misuse_slot(const struct ps_slot *slot, const void *block,
                            enum ps_misuse_call call) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: for the words only */
    if (kind == PS_RUN_FREE || kind == PS_RUN_BUSY) {
        ps_fatal_address(words[call][FREE], block);
    }
    if (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) {
        ps_fatal_address(words[call][INTERIOR], block);
    }
    ps_foreign_met(block, words[call][FOREIGN]);
}

PS_COLD void ps_misuse_met(const struct ps_span *span, const void *block,
                           enum ps_misuse_call call) {
    ps_misuse(words[call][FREE], span, block);
}

void ps_misuse_check(const struct ps_span *span, const void *block, enum ps_misuse_call call) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block))) {
        ps_misuse(words[call][INTERIOR], span, block);
    }
    if (PS_UNLIKELY(!ps_hard_is_on() && ps_heap_is_free(span, block))) {
        ps_misuse(words[call][FREE], span, block);
    }
}
