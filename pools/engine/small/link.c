/* SPDX-License-Identifier: MIT */
/*
 * See link.h. The salts are a counter under a secret, mixed.
 */
#include "pools/engine/small/link.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"
#include "pools/engine/small/span.h"

static uint64_t secret;
static uint64_t x_salts; /* number of the last salt made; that of marks is 0 */

static uint64_t mix(uint64_t number) { return ps_mix_64(secret + number * PS_GOLDEN_64); }

uintptr_t ps_link_mark_salt;

void ps_link_start(void) {
    secret = ps_os_random();
    ps_link_mark_salt = (uintptr_t)mix(0);
}

uintptr_t ps_link_new_salt(void) {
    /* relaxed: only uniqueness matters. */
    return (uintptr_t)mix(ps_add_relaxed(&x_salts, (uint64_t)1) + 1);
}

uint64_t ps_link_random_of(const void *address) { return mix((uintptr_t)address); }

/* ---- misuse ---- */

static const char *const words[][PS_MISUSE_STATES] = {
    [PS_MISUSE_FREE] = {"double free of", "free of interior pointer", "free of foreign pointer"},
    [PS_MISUSE_REALLOC] = {"realloc of free block", "realloc of interior pointer",
                           "realloc of foreign pointer"},
    [PS_MISUSE_SIZE] = {"size of free block", "size of interior pointer",
                        "size of foreign pointer"},
};

const char *ps_misuse_words(enum ps_misuse_call call, enum ps_misuse_state state) {
    return words[call][state];
}

PS_COLD void ps_misuse(const char *what, const struct ps_span *span, const void *block) {
    ps_fatal_block(what, block, span->block_bytes);
}

PS_COLD void ps_misuse_met(const struct ps_span *span, const void *block,
                           enum ps_misuse_call call) {
    bool is_block = ps_span_has_block(span, block);
    ps_misuse(words[call][is_block ? PS_MISUSE_OF_FREE : PS_MISUSE_OF_INTERIOR], span, block);
}

PS_COLD void ps_misuse_free(const struct ps_span *span, const void *block) {
    ps_misuse_met(span, block, PS_MISUSE_FREE);
}

PS_COLD void ps_misuse_link(const void *block, size_t block_bytes) {
    ps_fatal_block("double free of, or write after free to", block, block_bytes);
}
