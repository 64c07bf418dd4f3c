/* SPDX-License-Identifier: MIT */
/*
 * Runs the calling scenario again with one of its libraries added to LD_PRELOAD, before or after
 * the other entries (the allocator under test), and reports which run this is. No locks.
 */
#ifndef PS_TESTS_PRELOAD_ORDER_H
#define PS_TESTS_PRELOAD_ORDER_H

#include "claim.h"

#define PRELOAD_ORDER_BEFORE 0
#define PRELOAD_ORDER_AFTER 1

/* Returns in the second run only; the first becomes it by exec. */
static void preload_order_restart(char **arguments, const char *library, int place) {
    char path[4096];
    char value[8192];
    if (getenv("PS_SCENARIO_RESTARTED") != NULL) {
        return;
    }
    claim_library_path(path, sizeof path, library);
    const char *present = getenv("LD_PRELOAD");
    if (present == NULL || present[0] == '\0') {
        snprintf(value, sizeof value, "%s", path);
    } else if (place == PRELOAD_ORDER_BEFORE) {
        snprintf(value, sizeof value, "%s:%s", path, present);
    } else {
        snprintf(value, sizeof value, "%s:%s", present, path);
    }
    CLAIM(setenv("LD_PRELOAD", value, 1) == 0);
    CLAIM(setenv("PS_SCENARIO_RESTARTED", "1", 1) == 0);
    execv("/proc/self/exe", arguments);
    CLAIM(!"execv returned");
}

#endif
