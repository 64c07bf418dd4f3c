/* SPDX-License-Identifier: MIT */
/*
 * See stray.h.
 */
#include "pools/engine/harden/stray.h"

#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/zero.h"
#include "pools/engine/heap/detached.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/page/medium.h"

static enum ps_foreign foreign_policy = PS_FOREIGN_ABORT;

PS_AT_START void ps_stray_start(const struct ps_config *config) {
    foreign_policy = config->foreign;
}

/* Classifies an address in a region of medium blocks at which no live block starts. */
static PS_COLD enum ps_misuse_state state_in_region(const struct ps_slot *slot, const void *block) {
    bool is_page = (uintptr_t)block % PS_MEDIUM_PAGE_BYTES == 0;
    /* relaxed: affects the words only. */
    bool waits = (ps_load_relaxed(ps_medium_mark(slot, block)) & PS_MEDIUM_WAITS) != 0;
    return is_page && (waits || ps_medium_is_free(block)) ? PS_MISUSE_OF_FREE
                                                          : PS_MISUSE_OF_INTERIOR;
}

/* Reports an address without a live block. Returns only for a foreign pointer, if the policy
 * permits it. */
static PS_COLD void report(const struct ps_slot *slot, const void *block,
                           enum ps_misuse_call call) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: affects the words only */
    if (kind == PS_RUN_FREE || kind == PS_RUN_BUSY) {
        ps_fatal_address(ps_misuse_words(call, PS_MISUSE_OF_FREE), block);
    }
    if (kind == PS_RUN_MEDIUM) {
        ps_fatal_address(ps_misuse_words(call, state_in_region(slot, block)), block);
    }
    if (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) {
        ps_fatal_address(ps_misuse_words(call, PS_MISUSE_OF_INTERIOR), block);
    }
    const char *what = ps_misuse_words(call, PS_MISUSE_OF_FOREIGN);
    if (foreign_policy == PS_FOREIGN_ABORT) {
        ps_fatal_address(what, block);
    }
    if (foreign_policy == PS_FOREIGN_WARN) {
        ps_report_address(what, block);
    }
}

void ps_stray_free(struct ps_slot *slot, void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (kind == PS_RUN_GUARD) {
        ps_guard_free(block);
    } else if (kind == PS_RUN_ZERO) {
        ps_zero_free(slot, block);
    } else if (ps_bootstrap_usable(block) == 0) {
        report(slot, block, PS_MISUSE_FREE);
    }
}

size_t ps_stray_usable(const struct ps_slot *slot, const void *block, enum ps_misuse_call call) {
    /* relaxed: as in ps_stray_free. */
    if (ps_load_relaxed(&slot->run.kind) == PS_RUN_GUARD) {
        return ps_guard_usable(block, call == PS_MISUSE_REALLOC ? "realloc" : "size");
    }
    if (ps_zero_is_live(block)) {
        return 0;
    }
    size_t early = ps_bootstrap_usable(block);
    if (early != 0) {
        return early;
    }
    report(slot, block, call);
    return PS_STRAY_FOREIGN;
}
