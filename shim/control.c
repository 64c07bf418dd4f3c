/* SPDX-License-Identifier: MIT */
/*
 * The poolshim_* functions, for programs written for poolshim. Their contract is in the public
 * header. No locks.
 */
#include "pools/include/poolshim/poolshim.h"

#include "shim/profile.h"
#include "shim/stats.h"

#include <errno.h>
#include <unistd.h>

const char *poolshim_version(void) { return POOLSHIM_VERSION; }

int poolshim_stats_write(const char *path) {
    int saved_errno = errno;
    int error =
        path == NULL ? ps_stats_write_table(STDERR_FILENO) : ps_stats_write_file(path, NULL);
    errno = error != 0 ? error : saved_errno;
    return error != 0 ? -1 : 0;
}

int poolshim_profile_write(const char *path) {
    int saved_errno = errno;
    int error = ps_profile_write_file(path);
    errno = error != 0 ? error : saved_errno;
    return error != 0 ? -1 : 0;
}
