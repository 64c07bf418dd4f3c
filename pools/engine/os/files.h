/* SPDX-License-Identifier: MIT */
/*
 * Files by system calls, for reports, which are written from within signal handlers and calls of
 * malloc: libc's functions may be interposed and are points of cancellation. Each returns the
 * kernel's value, -errno on failure. No locks; any thread. Preserves errno.
 */
#ifndef PS_OS_FILES_H
#define PS_OS_FILES_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/os/syscall.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

/* directory: an open one, or AT_FDCWD, as in the next. mode: of a file that is created. */
PS_INLINE long ps_file_open(int directory, const char *name, int flags, unsigned mode) {
    return ps_syscall6(SYS_openat, directory, (long)name, flags, mode, 0, 0);
}

PS_INLINE long ps_file_status_at(int directory, const char *name, struct stat *out, int flags) {
    return ps_syscall6(SYS_newfstatat, directory, (long)name, (long)out, flags, 0, 0);
}

PS_INLINE long ps_file_status(int fd, struct stat *out) {
    return ps_syscall3(SYS_fstat, fd, (long)out, 0);
}

PS_INLINE long ps_file_close(int fd) { return ps_syscall3(SYS_close, fd, 0, 0); }

PS_INLINE long ps_file_rename(int directory, const char *from, const char *to) {
#if defined(SYS_renameat)
    return ps_syscall6(SYS_renameat, directory, (long)from, directory, (long)to, 0, 0);
#else /* RISC-V */
    return ps_syscall6(SYS_renameat2, directory, (long)from, directory, (long)to, 0, 0);
#endif
}

PS_INLINE long ps_file_remove(int directory, const char *name) {
    return ps_syscall3(SYS_unlinkat, directory, (long)name, 0);
}

/* A copy of a descriptor, numbered `lowest` or higher, which a new program does not get. */
PS_INLINE long ps_file_copy(int fd, int lowest) {
    return ps_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest);
}

#endif
