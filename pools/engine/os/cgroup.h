/* SPDX-License-Identifier: MIT */
/*
 * The limit that control groups set on the memory of this process, of version 1, 2 or both
 * (hybrid). The kernel enforces the lowest limit of the process's group and all groups above it; of
 * these, the ones are read that this mount namespace shows. Called by heap/limit.c, one thread at a
 * time. Opens, reads and closes each file within the call; allocates nothing, leaves errno alone.
 */
#ifndef PS_OS_CGROUP_H
#define PS_OS_CGROUP_H

#include <stdint.h>

#define PS_CGROUP_PATH_BYTES 1024 /* groups with longer paths are taken for those above them */

enum ps_cgroup_source {
    PS_CGROUP_NONE,
    PS_CGROUP_LIMIT, /* memory.limit_in_bytes, version 1 */
    PS_CGROUP_MAX,   /* memory.max, version 2 */
    PS_CGROUP_HIGH,  /* memory.high, version 2: beyond it the kernel slows the group down */
};

struct ps_cgroup {
    uint64_t limit_bytes; /* the lowest; UINT64_MAX: there is none */
    enum ps_cgroup_source source;
    char pressure[PS_CGROUP_PATH_BYTES]; /* memory.pressure of the group itself; "": none */
    char limited[PS_CGROUP_PATH_BYTES];  /* the group that has the lowest limit; "": none */
};

/* root: "", or, in tests, a folder with a /proc/self of its own and all that this names. Costs
 * about 20 system calls. */
void ps_cgroup_read(const char *root, struct ps_cgroup *out);

/* The share of the last ten seconds in which a task of the group waited for memory, in hundredths
 * of a per cent; 0 where the kernel does not report it. */
uint32_t ps_cgroup_pressure(const struct ps_cgroup *group);

/*
 * Memory of the group that has the lowest limit, less what the kernel drops before it kills a
 * process: the page cache of files. 0: unknown. Below `enough` bytes the cache is not subtracted.
 * Costs 3 system calls, or 6. One thread at a time.
 */
uint64_t ps_cgroup_usage(const struct ps_cgroup *group, uint64_t enough);

#endif
