/* SPDX-License-Identifier: MIT */
/*
 * Reading small files of /proc and /sys by raw system calls. A descriptor lives for one call: a
 * kept one would be closed by programs that close all they did not open, and its number would then
 * be another file's. No locks, no state; any thread.
 */
#ifndef PS_OS_FILE_H
#define PS_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the beginning of a file, up to `capacity` bytes; returns its length, 0 when it cannot be
 * read. */
size_t ps_file_read(const char *path, char *out, size_t capacity);

typedef void ps_file_visitor(void *context, char *line);

/* Calls visit for each line of a file, ended by a NUL in place of the newline. Lines that do not
 * fit in the buffer are left out. */
void ps_file_lines(const char *path, char *buffer, size_t capacity, ps_file_visitor *visit,
                   void *context);

/* Parses a decimal number at the start of a text and moves *text behind it. False: there is none,
 * or it does not fit. */
bool ps_file_number(const char **text, uint64_t *value);

#endif
