/* SPDX-License-Identifier: MIT */
/*
 * Walking the environment. Called by shim/config.c; calls the kernel only. No locks.
 */
#include "shim/environment.h"

#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void visit_entry(struct ps_str text, bool is_cut, ps_environment_visitor *visit,
                        void *context) {
    const size_t prefix_length = sizeof PS_ENVIRONMENT_PREFIX - 1;
    if (text.length <= prefix_length ||
        memcmp(text.data, PS_ENVIRONMENT_PREFIX, prefix_length) != 0) {
        return;
    }
    text.data += prefix_length;
    text.length -= prefix_length;
    const char *equals = memchr(text.data, '=', text.length);
    if (equals == NULL || equals == text.data) {
        return;
    }
    size_t name_length = (size_t)(equals - text.data);
    struct ps_environment_entry entry = {
        .name = {.data = text.data, .length = name_length},
        .value = {.data = equals + 1, .length = text.length - name_length - 1},
        .is_cut = is_cut,
    };
    visit(context, &entry);
}

void ps_environment_visit_array(char *const *environment, ps_environment_visitor *visit,
                                void *context) {
    if (environment == NULL) {
        return;
    }
    for (; *environment != NULL; environment++) {
        visit_entry(ps_str_of(*environment), false, visit, context);
    }
}

/*
 * buffer[0, held) is text read and not yet visited. Visits the complete entries in it and returns
 * where the incomplete one starts. An entry that is being skipped was visited by its beginning.
 */
static size_t visit_complete(const char *buffer, size_t held, bool *is_skipping,
                             ps_environment_visitor *visit, void *context) {
    size_t start = 0;
    for (;;) {
        const char *end = memchr(buffer + start, '\0', held - start);
        if (end == NULL) {
            return start;
        }
        size_t length = (size_t)(end - buffer) - start;
        if (!*is_skipping) {
            visit_entry((struct ps_str){.data = buffer + start, .length = length}, false, visit,
                        context);
        }
        *is_skipping = false;
        start += length + 1;
    }
}

static void visit_open_file(int fd, char *buffer, size_t capacity, ps_environment_visitor *visit,
                            void *context) {
    size_t held = 0;
    bool is_skipping = false;
    for (;;) {
        long got = ps_syscall3(SYS_read, fd, (long)(buffer + held), (long)(capacity - held));
        if (got == -EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        held += (size_t)got;
        size_t start = visit_complete(buffer, held, &is_skipping, visit, context);
        held -= start;
        memmove(buffer, buffer + start, held);
        if (held == capacity) {
            if (!is_skipping) {
                visit_entry((struct ps_str){.data = buffer, .length = held}, true, visit, context);
            }
            is_skipping = true;
            held = 0;
        }
    }
    if (held > 0 && !is_skipping) {
        visit_entry((struct ps_str){.data = buffer, .length = held}, false, visit, context);
    }
}

bool ps_environment_visit_file(const char *path, char *buffer, size_t capacity,
                               ps_environment_visitor *visit, void *context) {
    long fd = ps_syscall6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (ps_syscall_failed(fd)) {
        return false;
    }
    visit_open_file((int)fd, buffer, capacity, visit, context);
    ps_syscall3(SYS_close, fd, 0, 0);
    return true;
}
