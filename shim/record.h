/* SPDX-License-Identifier: MIT */
/*
 * The file of POOLSHIM_RECORD: the engine's recording, as JSON, written when the process exits.
 * docs/recording.md has the format. Called by the library's constructor and destructor. Allocates
 * nothing, uses no stdio. Locks: the engine's, for the recording, while it is written.
 */
#ifndef PS_SHIM_RECORD_H
#define PS_SHIM_RECORD_H

#include "shim/text.h"

/* Data of the shim. */
struct ps_record_process {
    uint64_t pid;
    const char *command; /* words, each with its NUL */
    size_t command_bytes;
};

/* Closes the recording and prints it. */
void ps_record_print(const struct ps_record_process *process, struct ps_text *text);

/* Once, from the library's constructor, after ps_shim_configure. */
void ps_record_at_start(void);

/*
 * From the library's destructor. Leaves errno and the exit status alone. In the child of a fork it
 * writes only if the file's name has the process id in it: without, the file is the parent's.
 */
void ps_record_at_exit(void);

#endif
