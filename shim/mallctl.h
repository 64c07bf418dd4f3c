/* SPDX-License-Identifier: MIT */
/*
 * The names that mallctl has an answer for. Callers: mallctl.c, mallctl_print.c. Any thread. No
 * locks; the figures are words that a refresh stores one by one.
 */
#ifndef PS_SHIM_MALLCTL_H
#define PS_SHIM_MALLCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types, as jemalloc documents them. */
enum ps_mallctl_type {
    PS_MALLCTL_ACTION, /* has no value */
    PS_MALLCTL_BOOL,
    PS_MALLCTL_UINT32, /* unsigned, uint32_t */
    PS_MALLCTL_UINT64, /* uint64_t, size_t */
    PS_MALLCTL_INT64,  /* ssize_t */
    PS_MALLCTL_TEXT,   /* const char * */
};

struct ps_mallctl_row {
    const char *name; /* components separated by dots; # is replaced by an index */
    enum ps_mallctl_type type;
    /* Puts the value into *value. Returns 0 or an errno. NULL: not readable. */
    int (*read)(size_t index, uint64_t *value);
    /* Takes the value, or does the action. NULL: not writable. */
    int (*write)(size_t index, uint64_t value);
};

extern const struct ps_mallctl_row ps_mallctl_rows[];
extern const size_t ps_mallctl_row_count;

/* The row of a name, and the index in the name; NULL: there is none. */
const struct ps_mallctl_row *ps_mallctl_find(const char *name, size_t *index);

/* Bytes of a value in the caller's memory. */
size_t ps_mallctl_bytes(enum ps_mallctl_type type);

#endif
