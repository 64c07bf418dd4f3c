/* SPDX-License-Identifier: MIT */
/*
 * The file of POOLSHIM_PROFILE: the engine's sampled heap profile, in pprof's format, written when
 * the process exits, and on demand. docs/profile.md explains it. Called by the library's
 * constructor and destructor and by control.c. Allocates nothing, uses no stdio. No locks of its
 * own.
 */
#ifndef PS_SHIM_PROFILE_H
#define PS_SHIM_PROFILE_H

/* Once, from the library's constructor, after ps_shim_configure. */
void ps_profile_at_start(void);

/*
 * From the library's destructor. Leaves errno and the exit status alone. In the child of a fork it
 * writes only if the file's name has the process id in it: without, the file is the parent's.
 */
void ps_profile_at_exit(void);

/* Writes the profile of this moment to a file named by `pattern`, or, when that is NULL, to that of
 * POOLSHIM_PROFILE. Returns 0 or an errno; ENOTSUP when there is no profile. */
int ps_profile_write_file(const char *pattern);

#endif
