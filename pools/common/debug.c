/* SPDX-License-Identifier: MIT */
/*
 * See debug.h.
 */
#include "pools/common/debug.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IS_READ = 1, IS_MALLOC = 2, IS_CHECK = 4 };

static uint32_t x_switches; /* the bits above; 0: PS_DEBUG has not been read */

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ','), at = at != NULL ? at + 1 : NULL) {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) {
            return true;
        }
    }
    return false;
}

static uint32_t switches(void) {
    uint32_t read = ps_load_relaxed(&x_switches); /* relaxed: all threads store the same */
    if (read == 0) {
        const char *value = getenv("PS_DEBUG");
        read = IS_READ | (PS_CHECKED ? IS_CHECK : 0u);
        if (value != NULL) {
            read |= (has_word(value, "malloc") ? IS_MALLOC : 0u) |
                    (has_word(value, "check") ? IS_CHECK : 0u);
        }
        ps_store_relaxed(&x_switches, read); /* relaxed: as above */
    }
    return read;
}

bool ps_debug_is_malloc(void) { return (switches() & IS_MALLOC) != 0; }

bool ps_debug_is_check(void) { return (switches() & IS_CHECK) != 0; }

void ps_debug_misuse(const char *what, const void *pointer, const char *pool) {
    char line[256];
    int length = snprintf(line, sizeof line, "poolshim: %s %p in %s\n", what, pointer, pool);
    ps_os_write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    abort();
}
