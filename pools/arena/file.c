/* SPDX-License-Identifier: MIT */
/*
 * Whole reads and writes, the locks on the file, the journal's file. See arena.h.
 */
#include "pools/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool ps_arena_write(int fd, const void *bytes, size_t count, uint64_t offset) {
    const char *from = bytes;
    while (count > 0) { /* ends: each round writes something or fails */
        ssize_t written = pwrite(fd, from, count, (off_t)offset);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? EIO : errno;
            return false;
        }
        from += written;
        offset += (uint64_t)written;
        count -= (size_t)written;
    }
    return true;
}

bool ps_arena_read(int fd, void *bytes, size_t count, uint64_t offset) {
    char *to = bytes;
    while (count > 0) { /* ends: each round reads something, or the file has ended */
        ssize_t got = pread(fd, to, count, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return false;
        }
        if (got == 0) {
            memset(to, 0, count);
            return true;
        }
        to += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return true;
}

/* Locks of the open file, not of the process: two in one process exclude each other, and closing
 * another descriptor of the file does not drop them. Far beyond the end of any arena. */
bool ps_arena_lock(int fd, enum arena_lock lock, short type, bool is_waiting) {
    struct flock request = {
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = ((off_t)1 << 61) + (off_t)lock,
        .l_len = 1,
    };
    int result;
    do { /* ends with the signals */
        result = fcntl(fd, is_waiting ? F_OFD_SETLKW : F_OFD_SETLK, &request);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

/* After a power cut a file may be there without its name, unless the directory was written. */
static bool sync_directory_of(const char *path) {
    char directory[PATH_MAX + 16];
    size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(directory, path, length);
    directory[length] = 0;
    int fd = open(length == 0 ? "/" : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool is_done = fsync(fd) == 0;
    close(fd);
    return is_done;
}

bool ps_arena_open_journal(struct ps_arena *arena) {
    if (arena->journal_fd < 0) {
        int flags = (arena->flags & PS_ARENA_READ) != 0 ? O_RDONLY : O_RDWR | O_CREAT;
        arena->journal_fd = open(arena->journal_path, flags | O_CLOEXEC, 0666);
        if (arena->journal_fd < 0) {
            return false;
        }
    }
    if ((arena->flags & PS_ARENA_SYNC) != 0 && !arena->is_directory_safe) {
        if (!sync_directory_of(arena->journal_path)) {
            return false;
        }
        arena->is_directory_safe = true;
    }
    return true;
}
