/* SPDX-License-Identifier: MIT */
/*
 * The profile in pprof's format: profile.proto of github.com/google/pprof, gzipped. Sample types
 * alloc_objects, alloc_space, inuse_objects and inuse_space, which is the default. Locations have
 * addresses and mappings, and no names: symbolisation is the reader's.
 *
 * Called by shim/profile.c. Allocates nothing: its tables are a mapping of its own, which it
 * releases. Locks: the profile's, for one stack at a time; the loader's.
 */
#ifndef PS_SHIM_PPROF_H
#define PS_SHIM_PPROF_H

/* A ps_report_writer; context: unused. Returns 0 or an errno. */
int ps_pprof_write(int fd, const void *context);

#endif
