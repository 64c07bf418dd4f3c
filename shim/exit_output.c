/* SPDX-License-Identifier: MIT */
/*
 * See exit_output.h. Calls libc and the kernel only. No locks.
 */
#include "shim/exit_output.h"

#include "pools/engine/os/syscall.h"
#include "shim/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES 1024

/* An open file, recognised after the program may have reused its number. */
struct stream {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Written by ps_exit_output_start, before the program has threads; read at exit. */
static struct stream kept_stderr = {.fd = -1};
static char start_directory[PATH_MAX];

static struct stream stream_of(int fd) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return (struct stream){.fd = -1};
    }
    return (struct stream){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
}

static bool is_same_file(struct stream a, struct stream b) {
    return a.fd >= 0 && b.fd >= 0 && a.device == b.device && a.inode == b.inode;
}

/*
 * A copy of stderr out of the program's way. Coreutils close fd 2 in an exit handler, before
 * destructors of libraries run. A high number, because programs and shells count on low ones.
 */
static int copy_stderr(void) {
    static const int lowest[] = {1000, 200, 10};
    for (size_t i = 0; i < sizeof lowest / sizeof lowest[0]; i++) {
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, lowest[i]);
        if (fd >= 0) {
            return fd;
        }
    }
    return -1;
}

void ps_exit_output_start(void) {
    static bool has_started;
    if (has_started) {
        return;
    }
    has_started = true;
    int saved_errno = errno;
    kept_stderr = stream_of(copy_stderr());
    /* A daemon's chdir("/") must not move a relative file name. */
    if (ps_syscall_failed(
            ps_syscall3(SYS_getcwd, (long)start_directory, sizeof start_directory, 0))) {
        start_directory[0] = '\0';
    }
    errno = saved_errno;
}

const char *ps_exit_output_directory(void) { return start_directory; }

int ps_exit_output_stderr(void) {
    if (is_same_file(stream_of(kept_stderr.fd), kept_stderr)) {
        return kept_stderr.fd;
    }
    return is_same_file(stream_of(STDERR_FILENO), kept_stderr) ? STDERR_FILENO : -1;
}

void ps_signal_guard_enter(struct ps_signal_guard *guard) {
    sigemptyset(&guard->blocked);
    sigaddset(&guard->blocked, SIGPIPE);
    sigaddset(&guard->blocked, SIGXFSZ);
    sigemptyset(&guard->pending_before);
    sigpending(&guard->pending_before);
    pthread_sigmask(SIG_BLOCK, &guard->blocked, &guard->before);
}

void ps_signal_guard_leave(struct ps_signal_guard *guard) {
    static const int signals[] = {SIGPIPE, SIGXFSZ};
    const struct timespec no_wait = {0};
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        bool is_ours = sigismember(&pending, signals[i]) == 1 &&
                       sigismember(&guard->pending_before, signals[i]) == 0;
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signals[i]);
        if (is_ours) {
            (void)sigtimedwait(&one, NULL, &no_wait);
        }
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

void ps_exit_output_unwritten(const char *option, const char *path, int error) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    int fd = ps_exit_output_stderr();
    if (fd < 0) {
        return;
    }
    ps_text_start(&text, buffer, sizeof buffer, fd);
    ps_text_add(&text, "poolshim: ");
    ps_text_add(&text, option);
    ps_text_add(&text, ": cannot write ");
    ps_text_add_quoted(&text, ps_str_of(path));
    const char *why = strerrordesc_np(error);
    ps_text_add(&text, ": ");
    ps_text_add(&text, why != NULL ? why : "unknown error");
    ps_text_add(&text, "\n");
    ps_text_flush(&text);
}
