/* SPDX-License-Identifier: MIT */
/* See mode.h. */
#include "tests/fuzz/lib/mode.h"

#include "pools/common/debug.h"

static enum mode mode;

enum mode mode_choose(struct fuzz_input *input) {
    static bool was_poison_on;
    static bool is_started;
    if (!is_started) {
        was_poison_on = ps_poison_is_on;
        is_started = true;
    }
    unsigned choice = fuzz_byte(input) % 4;
    mode = choice < 2 ? MODE_FAST : choice == 2 ? MODE_CHECK : MODE_MALLOC;
    /* Marks for AddressSanitizer make some pools slow, and others find more with them. */
    ps_poison_is_on = was_poison_on && (choice != 0);
    return mode;
}

bool ps_debug_is_malloc(void) { return mode == MODE_MALLOC; }

bool ps_debug_is_check(void) { return mode == MODE_CHECK; }

bool ps_debug_is_leaks(void) { return false; }

void ps_debug_misuse(const char *what, const void *pointer, const char *pool) {
    fprintf(stderr, "poolshim: %s %p in %s\n", what, pointer, pool);
    abort();
}
