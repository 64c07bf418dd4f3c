/* SPDX-License-Identifier: MIT */
/*
 * Numbers of option values: counts, sizes with a unit, percentages. Called by shim/config_value.c
 * and shim/process.c. No locks, no libc beyond string.h.
 */
#include "shim/config.h"

#include <string.h>

enum { FRACTION_DIGITS = 9 }; /* 10^9 * 2^30 still fits into 64 bits */

enum ps_number_fault ps_value_parse_count(struct ps_str text, uint64_t *out) {
    uint64_t value = 0;
    bool is_over = false;
    for (size_t i = 0; i < text.length; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9) {
            return PS_NUMBER_MALFORMED;
        }
        is_over |= __builtin_mul_overflow(value, 10, &value);
        is_over |= __builtin_add_overflow(value, digit, &value);
    }
    if (text.length == 0) {
        return PS_NUMBER_MALFORMED;
    }
    *out = value;
    return is_over ? PS_NUMBER_OVERFLOW : PS_NUMBER_FINE;
}

/* Digits, perhaps a point and up to FRACTION_DIGITS more, as `whole` and `part` / `parts`. */
static enum ps_number_fault parse_decimal(struct ps_str text, uint64_t *whole, uint64_t *part,
                                          uint64_t *parts) {
    const char *point = text.length == 0 ? NULL : memchr(text.data, '.', text.length);
    *part = 0;
    *parts = 1;
    if (point == NULL) {
        return ps_value_parse_count(text, whole);
    }
    struct ps_str behind = {.data = point + 1,
                            .length = text.length - (size_t)(point + 1 - text.data)};
    text.length -= behind.length + 1;
    if (behind.length > FRACTION_DIGITS || ps_value_parse_count(behind, part) != PS_NUMBER_FINE) {
        return PS_NUMBER_MALFORMED;
    }
    for (size_t i = 0; i < behind.length; i++) {
        *parts *= 10;
    }
    return ps_value_parse_count(text, whole);
}

enum ps_number_fault ps_value_parse_size(struct ps_str text, uint64_t *bytes) {
    static const struct {
        char name[4];
        uint64_t bytes;
    } units[] = {
        {"", 1},         {"K", 1 << 10},  {"M", 1 << 20},     {"G", 1 << 30},   {"Ki", 1 << 10},
        {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"KiB", 1 << 10},   {"MiB", 1 << 20}, {"GiB", 1 << 30},
        {"KB", 1000},    {"MB", 1000000}, {"GB", 1000000000},
    };
    size_t digits = 0;
    while (digits < text.length &&
           ((text.data[digits] >= '0' && text.data[digits] <= '9') || text.data[digits] == '.')) {
        digits++;
    }
    struct ps_str unit =
        ps_str_trim((struct ps_str){.data = text.data + digits, .length = text.length - digits});
    text.length = digits;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!ps_str_equals_any_case(unit, ps_str_of(units[i].name))) {
            continue;
        }
        uint64_t value = 0;
        uint64_t part = 0;
        uint64_t parts = 1;
        enum ps_number_fault fault = parse_decimal(text, &value, &part, &parts);
        if (fault != PS_NUMBER_FINE) {
            return fault;
        }
        if (parts != 1 && units[i].bytes == 1) {
            return PS_NUMBER_MALFORMED; /* half a byte */
        }
        bool is_over = __builtin_mul_overflow(value, units[i].bytes, bytes);
        is_over |= __builtin_add_overflow(*bytes, part * units[i].bytes / parts, bytes);
        return is_over ? PS_NUMBER_OVERFLOW : PS_NUMBER_FINE;
    }
    return PS_NUMBER_MALFORMED;
}

enum ps_number_fault ps_value_parse_percent(struct ps_str text, uint64_t *percent) {
    uint64_t part = 0;
    uint64_t parts = 1;
    enum ps_number_fault fault = parse_decimal(text, percent, &part, &parts);
    if (fault == PS_NUMBER_FINE && (*percent > 100 || (*percent == 100 && part != 0))) {
        return PS_NUMBER_OVERFLOW;
    }
    return fault;
}

enum ps_number_fault ps_value_parse_huge_size(struct ps_str text, uint64_t *bytes) {
    enum ps_number_fault fault = ps_value_parse_size(text, bytes);
    bool is_fit = (*bytes & (*bytes - 1)) == 0 && *bytes >= PS_HUGETLB_BYTES_LEAST &&
                  *bytes <= PS_HUGETLB_BYTES_MOST;
    return fault != PS_NUMBER_FINE || is_fit ? fault : PS_NUMBER_MALFORMED;
}
