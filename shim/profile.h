/* SPDX-License-Identifier: MIT */
/*
 * The file of POOLSHIM_PROFILE: the engine's sampled heap profile, in pprof's format, written when
 * the process exits, and on demand. docs/profile.md explains it. Called by the library's
 * constructor and destructor and by control.c. Allocates nothing, uses no stdio. No locks of its
 * own.
 */
#ifndef PS_SHIM_PROFILE_H
#define PS_SHIM_PROFILE_H

#include <stddef.h>
#include <stdint.h>

/* Once, from the library's constructor, after ps_shim_configure. */
void ps_profile_at_start(void);

/*
 * From the library's destructor. Leaves errno and the exit status alone. In the child of a fork it
 * writes only if the file's name has the process id in it: without, the file is the parent's.
 */
void ps_profile_at_exit(void);

/* Writes the file if it is due (POOLSHIM_PROFILE_EVERY). Returns after how many milliseconds the
 * next is; 0: there is none. From the background thread, or at a sample. */
uint32_t ps_profile_tick(uint64_t now_ms);

/* Writes the profile of this moment to a file named by `pattern`, or, when that is NULL, to that of
 * POOLSHIM_PROFILE. Returns 0 or an errno; ENOTSUP when there is no profile. */
int ps_profile_write_file(const char *pattern);

/* ---- pprof's format (profile_pprof.c) ---- */

/*
 * profile.proto of github.com/google/pprof, gzipped. Sample types
 * alloc_objects, alloc_space, inuse_objects and inuse_space, which is the default. Locations have
 * addresses and mappings, and no names: symbolisation is the reader's. Those of line records have a
 * function, its file and a line, and no address.
 *
 * Called by shim/profile.c. Allocates nothing: its tables are a mapping of its own, which it
 * releases. Locks: the profile's, for one stack at a time; the loader's.
 */

/* A ps_report_writer; context: unused. Returns 0 or an errno. */
int ps_pprof_write(int fd, const void *context);

/* ---- its container (profile_gzip.c) ---- */

/*
 * Writes a gzip file (RFC 1952) of stored blocks, without compression: readers of profiles expect
 * the container, and a library that compresses is no dependency of a malloc. Owns no state; the
 * struct is the caller's. Allocates nothing. No locks.
 */

#define PS_GZIP_BUFFER_BYTES 8192 /* of a stored block, which has 65535 at most */

struct ps_gzip {
    int fd;
    int error; /* errno of the first failed write, or 0; nothing is written after it */
    uint32_t crc;
    uint32_t total; /* bytes so far, modulo 2^32 */
    size_t length;  /* bytes in the buffer */
    unsigned char buffer[PS_GZIP_BUFFER_BYTES];
};

void ps_gzip_start(struct ps_gzip *gzip, int fd);
void ps_gzip_add(struct ps_gzip *gzip, const void *data, size_t bytes);

/* Writes the end of the file. Returns 0 or the errno of the first failed write. */
int ps_gzip_finish(struct ps_gzip *gzip);

#endif
