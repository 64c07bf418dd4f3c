/* SPDX-License-Identifier: MIT */
/*
 * Raw system calls, and small files read by them. They replace libc's wrappers for three reasons:
 * errno is preserved (as free must), no other preloaded library can intercept them, and they work
 * before this library has been relocated, when a call through the GOT would jump to an invalid
 * address. Used by the OS layer and by the start-up code of shim/. Calls return the kernel's value:
 * -errno on failure.
 */
#ifndef PS_OS_SYSCALL_H
#define PS_OS_SYSCALL_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* PS_VDSO(name): how the kernel calls one of the functions that it maps into each process. */
#include PS_ARCH_PART(syscall.h)

PS_INLINE long ps_syscall3(long number, long a, long b, long c) {
    return ps_syscall6(number, a, b, c, 0, 0, 0);
}

/* The kernel reports failure as -4095..-1. */
PS_INLINE int ps_syscall_failed(long result) { return (unsigned long)result > -4096UL; }

/* ---- files ---- */

/*
 * Reading small files of /proc and /sys by raw system calls. A descriptor lives for one call: a
 * cached one would be closed by programs that close all they did not open, and its number would
 * then be another file's. No locks, no state; any thread.
 */

/* Reads the beginning of a file, up to `capacity` bytes; returns its length, 0 when it cannot be
 * read. */
size_t ps_file_read(const char *path, char *out, size_t capacity);

typedef void ps_file_visitor(void *context, char *line);

/* Calls visit for each line of a file, ended by a NUL in place of the newline. Lines that do not
 * fit in the buffer are left out. */
void ps_file_lines(const char *path, char *buffer, size_t capacity, ps_file_visitor *visit,
                   void *context);

/* Appends to a path in a buffer of `capacity` bytes. False, and nothing changed, when it does not
 * fit. */
bool ps_path_append(char *path, size_t capacity, const char *more);

/* Parses a decimal number at the start of a text and moves *text after it. False: there is none, or
 * it does not fit. */
bool ps_file_number(const char **text, uint64_t *value);

#endif
