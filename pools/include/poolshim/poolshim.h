/* SPDX-License-Identifier: MIT */
/*
 * poolshim.h - talk to a preloaded poolshim from inside a program.
 *
 * A program needs no library to use this header: the functions are weak references, which the
 * preloaded libpoolshim.so fills in. Without it they are null, and poolshim_is_active() says so:
 *
 *     #include <poolshim/poolshim.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         if (!poolshim_is_active()) {
 *             puts("running on another allocator");
 *             return 0;
 *         }
 *         printf("poolshim %s\n", poolshim_version());
 *         return poolshim_stats_write("heap.%p.json") == 0 ? 0 : 1;
 *     }
 *
 * Options are set from outside, by environment variables: docs/options.md.
 */
#ifndef POOLSHIM_POOLSHIM_H
#define POOLSHIM_POOLSHIM_H

#define POOLSHIM_VERSION "0.1.0"

#define POOLSHIM_API __attribute__((weak, visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of the library that is loaded, "major.minor.patch"; POOLSHIM_VERSION is that of the
 * header. A constant string, never to be freed. Any thread; O(1).
 */
POOLSHIM_API const char *poolshim_version(void);

/*
 * Writes the statistics of this moment.
 *
 * path: file name as in POOLSHIM_STATS: %p is the process id, %% a percent sign, a name that ends
 * in .json gets JSON, another one the readable table. An existing regular file is replaced in one
 * step, so a reader never sees half a report. NULL: the table, on stderr.
 *
 * Returns 0, or -1 with errno set as open, write or rename left it; ENAMETOOLONG when the name
 * has more than 4095 bytes after %p. Allocates nothing. Any thread, at any time; not in signal
 * handlers. Cost: grows with the heap (the census visits every span) and a few system calls.
 */
POOLSHIM_API int poolshim_stats_write(const char *path);

/*
 * Writes the heap profile of this moment (POOLSHIM_PROFILE), in pprof's format.
 *
 * path: file name as above; NULL: that of POOLSHIM_PROFILE, which is written at exit too. An
 * existing regular file is replaced in one step.
 *
 * Returns 0, or -1 with errno set: ENOTSUP when POOLSHIM_PROFILE is not on, ENOMEM, or as open,
 * write or rename left it. Allocates nothing from the heap. Any thread, at any time; not in signal
 * handlers. Cost: grows with the number of stacks, of which there are at most as many as
 * POOLSHIM_PROFILE_MAX has room for.
 */
POOLSHIM_API int poolshim_profile_write(const char *path);

/* 1 when libpoolshim.so is loaded into this process, otherwise 0. Any thread; O(1). */
static inline int poolshim_is_active(void) { return poolshim_version != 0; }

#ifdef __cplusplus
}
#endif

#endif
