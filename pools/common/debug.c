/* SPDX-License-Identifier: MIT */
/*
 * See debug.h.
 */
#include "pools/common/debug.h"

#include "pools/engine/os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t ps_x_debug;

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ','), at = at != NULL ? at + 1 : NULL) {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) {
            return true;
        }
    }
    return false;
}

PS_COLD uint32_t ps_debug_read(void) {
    const char *value = getenv("PS_DEBUG");
    uint32_t read = PS_DEBUG_IS_READ | (PS_CHECKED ? (uint32_t)PS_DEBUG_IS_CHECK : 0u);
    if (value != NULL) {
        read |= (has_word(value, "malloc") ? (uint32_t)PS_DEBUG_IS_MALLOC : 0u) |
                (has_word(value, "check") ? (uint32_t)PS_DEBUG_IS_CHECK : 0u) |
                (has_word(value, "leaks") ? (uint32_t)PS_DEBUG_IS_LEAKS : 0u);
    }
    /* Inline fast paths show memcheck nothing; malloc blocks show all. */
    bool is_memcheck = ps_poison_is_memcheck && (read & PS_DEBUG_IS_MALLOC) == 0;
    read |= is_memcheck ? (uint32_t)PS_DEBUG_IS_CHECK : 0u;
    ps_store_relaxed(&ps_x_debug, read); /* relaxed: all threads store the same */
    return read;
}

void ps_debug_misuse(const char *what, const void *pointer, const char *pool) {
    char line[256];
    int length = snprintf(line, sizeof line, "poolshim: %s %p in %s\n", what, pointer, pool);
    ps_os_write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    abort();
}
