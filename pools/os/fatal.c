/* SPDX-License-Identifier: MIT */
/*
 * Messages before death. Called from any layer when the program misused the allocator or a check
 * failed. No locks, no allocation.
 */
#include "pools/os/fatal.h"

#include "pools/base/check.h"
#include "pools/os/os.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 160
#define ADDRESS_BYTES 18 /* 0x and 16 digits */

static size_t append_hex(char *out, uintptr_t value) {
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;
    out[length++] = '0';
    out[length++] = 'x';
    int shift = 60;
    while (shift > 0 && ((value >> shift) & 15) == 0) {
        shift -= 4;
    }
    for (; shift >= 0; shift -= 4) {
        out[length++] = digits[(value >> shift) & 15];
    }
    return length;
}

void ps_report_address(const char *what, const void *address) {
    static const char prefix[] = "poolshim: ";
    char line[LINE_BYTES];
    size_t length = sizeof prefix - 1;
    memcpy(line, prefix, length);
    for (; *what != '\0' && length < LINE_BYTES - ADDRESS_BYTES - 2; what++) {
        line[length++] = *what;
    }
    line[length++] = ' ';
    length += append_hex(line + length, (uintptr_t)address);
    line[length++] = '\n';
    ps_os_write(2, line, length);
}

PS_COLD PS_NORETURN void ps_fatal_address(const char *what, const void *address) {
    ps_report_address(what, address);
    abort();
}

PS_COLD PS_NORETURN void ps_check_failed(const char *text) {
    ps_os_write(2, text, strlen(text));
    abort();
}
