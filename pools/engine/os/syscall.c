/* SPDX-License-Identifier: MIT */
/*
 * Small files of /proc and /sys: see syscall.h.
 */
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static long open_file(const char *path) {
    return ps_syscall6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

/* Returns how many bytes were read; 0 at the end and on failure. */
static size_t read_some(long fd, char *out, size_t capacity) {
    long got;
    do { /* ends: a signal interrupts it, or data comes */
        got = ps_syscall3(SYS_read, fd, (long)out, (long)capacity);
    } while (got == -EINTR);
    return got > 0 ? (size_t)got : 0;
}

size_t ps_file_read(const char *path, char *out, size_t capacity) {
    size_t length = 0;
    size_t got;
    long fd = open_file(path);
    if (ps_syscall_failed(fd)) {
        return 0;
    }
    do { /* ends: the buffer is full, or the file is over */
        got = read_some(fd, out + length, capacity - length);
        length += got;
    } while (got != 0 && length < capacity);
    ps_syscall3(SYS_close, fd, 0, 0);
    return length;
}

/* Visits the complete lines of buffer[0, held); returns where the incomplete one starts. The
 * rest of a line that did not fit is left out too. */
static size_t visit_complete(char *buffer, size_t held, bool *is_skipping, ps_file_visitor *visit,
                             void *context) {
    size_t start = 0;
    char *end;
    while ((end = memchr(buffer + start, '\n', held - start)) != NULL) {
        *end = '\0';
        if (!*is_skipping) {
            visit(context, buffer + start);
        }
        *is_skipping = false;
        start = (size_t)(end - buffer) + 1;
    }
    return start;
}

void ps_file_lines(const char *path, char *buffer, size_t capacity, ps_file_visitor *visit,
                   void *context) {
    size_t held = 0;
    size_t got;
    bool is_skipping = false;
    long fd = open_file(path);
    if (ps_syscall_failed(fd)) {
        return;
    }
    while ((got = read_some(fd, buffer + held, capacity - held)) != 0) { /* ends with the file */
        held += got;
        size_t start = visit_complete(buffer, held, &is_skipping, visit, context);
        held -= start;
        memmove(buffer, buffer + start, held);
        if (held == capacity) {
            is_skipping = true;
            held = 0;
        }
    }
    if (held != 0 && !is_skipping) { /* room is left: a full buffer was skipped */
        buffer[held] = '\0';
        visit(context, buffer);
    }
    ps_syscall3(SYS_close, fd, 0, 0);
}

bool ps_path_append(char *path, size_t capacity, const char *more) {
    size_t length = strlen(path);
    size_t added = strlen(more);
    if (length + added >= capacity) {
        return false;
    }
    memcpy(path + length, more, added + 1);
    return true;
}

bool ps_file_number(const char **text, uint64_t *value) {
    const char *at = *text;
    bool is_over = false;
    *value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        is_over |= __builtin_mul_overflow(*value, 10, value);
        is_over |= __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value);
    }
    bool is_number = at != *text && !is_over;
    *text = at;
    return is_number;
}
