/* SPDX-License-Identifier: MIT */
/*
 * See mode.h. Called by start.c, under its lock.
 */
#include "pools/engine/heap/mode.h"

#include "pools/engine/os/os.h"

PS_SPARSE struct ps_mode ps_mode; /* a page of its own */

static enum ps_mode_index wanted_by(const struct ps_config *config) {
    if (config->record) {
        return config->trace_memory != NULL ? PS_MODE_TRACED : PS_MODE_RECORDED;
    }
    if (config->harden == PS_HARDEN_MEMORY_TAGS) {
        return PS_MODE_TAGGED;
    }
    if (config->harden != 0) {
        return config->harden >= PS_HARDEN_CALL_SITES     ? PS_MODE_SITED
               : config->harden >= PS_HARDEN_CHECK_BLOCKS ? PS_MODE_HARDENED
                                                          : PS_MODE_ZEROED;
    }
    if (config->guard_sample != 0) {
        return PS_MODE_SAMPLED;
    }
    return PS_MODE_PLAIN;
}

void ps_mode_start(const struct ps_config *config) {
    enum ps_mode_index index = wanted_by(config);
    if (!ps_mode_hooks[index].start(config)) {
        index = PS_MODE_PLAIN;
        (void)ps_mode_hooks[index].start(config);
    }
    ps_mode.entry = ps_mode_entries[index];
    ps_mode.hook = ps_mode_hooks[index];
    if (ps_os_page_bytes() <= sizeof ps_mode) {
        (void)ps_os_freeze(&ps_mode, sizeof ps_mode); /* refused: writable, otherwise equal */
    }
}

void ps_mode_ignores_tick(void) {}
