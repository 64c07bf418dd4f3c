/* SPDX-License-Identifier: MIT */
/*
 * Writes the limit that control groups set on the memory of this process, and so of what its parent
 * starts: bytes and the file that has it, one line; nothing where there is none below the memory of
 * the machine. `poolshim doctor` shows it. The library's own reader, so that both see the same.
 * Exit status 0; 125 where standard output cannot be written.
 */
#include "pools/engine/os/cgroup.h"

#include <stdio.h>
#include <sys/sysinfo.h>

enum { EXIT_OWN_FAILURE = 125 };

static const char *const files[] = {
    [PS_CGROUP_NONE] = "",
    [PS_CGROUP_LIMIT] = "memory.limit_in_bytes",
    [PS_CGROUP_MAX] = "memory.max",
    [PS_CGROUP_HIGH] = "memory.high",
};

int main(void) {
    static struct ps_cgroup group;
    struct sysinfo info;
    ps_cgroup_read("", &group);
    if (sysinfo(&info) == 0 && group.limit_bytes < (uint64_t)info.totalram * info.mem_unit) {
        printf("%ju %s\n", (uintmax_t)group.limit_bytes, files[group.source]);
    }
    return fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE;
}
