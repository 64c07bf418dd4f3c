/* SPDX-License-Identifier: MIT */
/*
 * Reads POOLSHIM_* variables without libc's help: from the process's environment array, or, when
 * malloc is called before libc has set that up, from /proc/self/environ. Owns nothing that
 * outlives a call. Called by shim/config.c under its caller's initialisation lock; allocates
 * nothing and leaves errno alone.
 */
#ifndef PS_SHIM_ENVIRONMENT_H
#define PS_SHIM_ENVIRONMENT_H

#include "shim/text.h"

#include <stdbool.h>
#include <stddef.h>

#define PS_ENVIRONMENT_PREFIX "POOLSHIM_"

struct ps_environment_entry {
    struct ps_str name;  /* without the prefix */
    struct ps_str value; /* may be empty; valid only during the visit */
    bool is_cut;         /* too long for the reading buffer: the value is only its beginning */
};

typedef void ps_environment_visitor(void *context, const struct ps_environment_entry *entry);

/*
 * Visits every "POOLSHIM_<name>=<value>" in order. An entry without '=' or with nothing
 * after the prefix is passed over, as getenv would. environment may be NULL: nothing is visited.
 */
void ps_environment_visit_array(char *const *environment, ps_environment_visitor *visit,
                                void *context);

/*
 * The same for a file of NUL-separated entries, read through a buffer of the caller. Entries of
 * any length are coped with; those longer than the buffer are visited with is_cut.
 * False when the file cannot be opened.
 */
bool ps_environment_visit_file(const char *path, char *buffer, size_t capacity,
                               ps_environment_visitor *visit, void *context);

#endif
