/* SPDX-License-Identifier: MIT */
/*
 * See trace_peak.h.
 */
#include "pools/engine/record/trace_peak.h"

#include "pools/engine/os/syscall.h"

#include <string.h>

#define LINE_BYTES 512 /* of /proc/self/status; longer lines are left out */

static void visit_line(void *context, char *line) {
    static const char key[] = "VmHWM:";
    uint64_t kib;
    if (strncmp(line, key, sizeof key - 1) != 0) {
        return;
    }
    const char *at = line + sizeof key - 1;
    while (*at == ' ' || *at == '\t') { /* ends: a zero ends the line */
        at++;
    }
    if (ps_file_number(&at, &kib)) {
        *(uint64_t *)context = kib << 10;
    }
}

uint64_t ps_trace_peak_read(void) {
    char buffer[LINE_BYTES];
    uint64_t bytes = 0;
    ps_file_lines("/proc/self/status", buffer, sizeof buffer, visit_line, &bytes);
    return bytes;
}
