/* SPDX-License-Identifier: MIT */
/*
 * See misuse.h.
 */
#include "pools/engine/small/misuse.h"

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
