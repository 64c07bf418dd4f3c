/* SPDX-License-Identifier: MIT */
/*
 * Numbers as text, for code that can call neither printf nor malloc. No state.
 */
#ifndef PS_BASE_DIGITS_H
#define PS_BASE_DIGITS_H

#include <stdint.h>

#define PS_DIGITS_BYTES 24 /* 64 bits have 20 decimal digits at most */

/* Writes a number at the end of a buffer, without leading zeroes, and a NUL after it. base: 10 or
 * 16. Returns the first digit. */
static inline const char *ps_digits(char buffer[PS_DIGITS_BYTES], uint64_t value, unsigned base) {
    char *first = buffer + PS_DIGITS_BYTES - 1;
    *first = '\0';
    do { /* ends: the value becomes smaller */
        *--first = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    return first;
}

#endif
