/* SPDX-License-Identifier: MIT */
/*
 * Opening of report files, in directories where other users may have put a trap: a symbolic link or
 * a second name of a file of this user, a named pipe. Owns the walk along a path. Called by
 * exit_output.c, trace.c and flight_store.c. Raw system calls only: the first allocation may come
 * before libc is initialised. No locks, no state; any thread.
 */
#ifndef PS_SHIM_REPORT_OPEN_H
#define PS_SHIM_REPORT_OPEN_H

#include <stdbool.h>
#include <stddef.h>

/* directory is open for its path only; name is in the path that it was found by. */
struct ps_report_place {
    int directory;
    const char *name; /* no symbolic link, or nothing yet */
    bool is_proc;     /* in /proc, whose links lead to open files */
};

/*
 * Follows a path, which is a buffer of `capacity` bytes and is changed. Each symbolic link must
 * belong to this user or to root, or lie in a directory that no other user may write to. Each step
 * begins at an open directory, so that no part can be exchanged after it was checked. Returns 0 or
 * an errno: EACCES for a link of another user. The place must be closed after 0.
 */
int ps_report_place_find(struct ps_report_place *place, char *path, size_t capacity);

void ps_report_place_close(struct ps_report_place *place);

/*
 * Opens the file for O_WRONLY or O_RDWR, without blocking until a pipe has a reader, or makes it.
 * With O_TRUNC a regular file is emptied, once it is known to be no trap. A file that another user
 * owns in a shared directory is one, unless the directory is that user's and the file is not mapped
 * (O_RDWR); so is a regular file with a second name there. Returns a descriptor, or an error as the
 * kernel returns it.
 */
long ps_report_open(const struct ps_report_place *place, int flags, unsigned mode);

/* Maps a file of so many bytes, emptied first, on disk from now on: a full disk is noticed here.
 * Changes the path, a buffer of `capacity` bytes. Returns the memory, or an error as the kernel
 * returns it. */
long ps_report_map(char *path, size_t capacity, size_t bytes);

#endif
