/* SPDX-License-Identifier: MIT */
/* See mode.h. */
#include "tests/fuzz/lib/mode.h"

#include "pools/common/debug.h"

uint32_t ps_x_debug = PS_DEBUG_IS_READ;

uint32_t ps_debug_read(void) { return ps_x_debug; }

enum mode mode_choose(struct fuzz_input *input) {
    static bool was_poison_on;
    static bool is_started;
    if (!is_started) {
        was_poison_on = ps_poison_is_on;
        is_started = true;
    }
    unsigned choice = fuzz_byte(input) % 4;
    enum mode mode = choice < 2 ? MODE_FAST : choice == 2 ? MODE_CHECK : MODE_MALLOC;
    ps_x_debug = PS_DEBUG_IS_READ | (mode == MODE_CHECK ? (uint32_t)PS_DEBUG_IS_CHECK : 0u) |
                 (mode == MODE_MALLOC ? (uint32_t)PS_DEBUG_IS_MALLOC : 0u);
    /* Marks for AddressSanitizer make some pools slow, and others find more with them. */
    ps_poison_is_on = was_poison_on && (choice != 0);
    return mode;
}

void ps_debug_misuse(const char *what, const void *pointer, const char *pool) {
    fprintf(stderr, "poolshim: %s %p in %s\n", what, pointer, pool);
    abort();
}
