/* SPDX-License-Identifier: MIT */
/*
 * Runs one command and says of every program that it or its descendants started whether a library
 * was mapped in it: `poolshim doctor --run` finds with it where a preload is lost. Caller:
 * poolshim_cli/doctor.
 *
 * Every process of the family is seized and followed through fork, and stops at each exec and when
 * a thread ends; at the end of its last thread its files in /proc still exist. Of a program that
 * replaced itself by another nothing is left to read, so for that one only its environment
 * counts. Set-user-ID programs do not gain privileges under ptrace: callers check for those before.
 *
 * Writes one line for each program, its four fields ended by NUL: process id,
 * "preload" or "bare" (is the library in its LD_PRELOAD), "mapped", "unmapped" or "unknown", path.
 * Exit status as launcher.c has it; 125 also where ptrace is forbidden. One thread, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_OWN_FAILURE = 125, EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };
enum { PROGRAM_LIMIT = 4096 }; /* later programs of a family are followed and not reported */

struct program {
    pid_t process;
    bool has_preload;
    bool is_over; /* it ended, or became another program */
    const char *mapped;
    char path[PATH_MAX];
};

static struct program *programs;
static size_t program_count;
static const char *library;

__attribute__((noreturn)) static void die(int status, const char *what, const char *why) {
    fprintf(stderr, "family: %s: %s\n", what, why);
    exit(status);
}

/* A file of /proc/<process>, whole and ended by NUL; *length without that. NULL: not readable. */
static char *read_proc(pid_t process, const char *name, size_t *length) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t capacity = 1u << 16;
    char *text = fd < 0 ? NULL : malloc(capacity);
    ssize_t got = 0;
    *length = 0;
    while (text != NULL && (got = read(fd, text + *length, capacity - *length - 1)) > 0) {
        *length += (size_t)got;
        if (capacity - *length < 2) {
            capacity *= 2;
            char *longer = realloc(text, capacity);
            if (longer == NULL) {
                free(text);
            }
            text = longer;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    if (text != NULL) {
        text[*length] = '\0';
    }
    return text;
}

static bool has_preload(pid_t process) {
    size_t length;
    char *environment = read_proc(process, "environ", &length);
    bool found = false;
    for (size_t at = 0; environment != NULL && at < length && !found;) {
        const char *entry = environment + at;
        found = strncmp(entry, "LD_PRELOAD=", 11) == 0 && strstr(entry, library) != NULL;
        at += strlen(entry) + 1;
    }
    free(environment);
    return found;
}

static struct program *current_of(pid_t process) {
    for (size_t i = program_count; i-- > 0;) {
        if (programs[i].process == process && !programs[i].is_over) {
            return &programs[i];
        }
    }
    return NULL;
}

/* A new program, in a process that may have been another one until now. */
static void enter(pid_t process) {
    struct program *before = current_of(process);
    if (before != NULL) {
        before->is_over = true;
    }
    if (program_count == PROGRAM_LIMIT) {
        return;
    }
    struct program *program = &programs[program_count++];
    *program = (struct program){.process = process, .mapped = "unknown"};
    program->has_preload = has_preload(process);
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)process);
    if (readlink(link, program->path, sizeof program->path - 1) < 0) {
        program->path[0] = '\0';
    }
}

/* A thread is about to end: whatever its process has mapped is still there. */
static void look_at(pid_t thread) {
    size_t length;
    char *status = read_proc(thread, "status", &length);
    const char *line = status == NULL ? NULL : strstr(status, "\nTgid:");
    pid_t process = line == NULL ? thread : (pid_t)strtol(line + 6, NULL, 10);
    free(status);
    struct program *program = current_of(process);
    char *maps = program == NULL ? NULL : read_proc(thread, "maps", &length);
    if (maps != NULL && length > 0) {
        program->mapped = strstr(maps, library) != NULL ? "mapped" : "unmapped";
    }
    free(maps);
}

static void handle_stop(pid_t thread, int status) {
    int event = status >> 16;
    int signal_number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC) {
        enter(thread);
    } else if (event == PTRACE_EVENT_EXIT) {
        look_at(thread);
    } else if (event == PTRACE_EVENT_STOP && signal_number != SIGTRAP) {
        ptrace(PTRACE_LISTEN, thread, NULL, NULL); /* a job-control stop: leave it stopped */
        return;
    }
    ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)(event == 0 ? signal_number : 0));
}

/* Follows the family until its last process has ended; returns the command's own status. */
static int follow(pid_t command) {
    int end = 0;
    for (;;) {
        int status;
        pid_t found = waitpid(-1, &status, __WALL);
        if (found < 0 && errno == EINTR) {
            continue;
        }
        if (found < 0) {
            return end;
        }
        if (WIFSTOPPED(status)) {
            handle_stop(found, status);
        } else if (found == command) {
            end = status;
        }
    }
}

static pid_t start(char **words, int error_fd) {
    int go[2];
    if (pipe(go) != 0) {
        die(EXIT_OWN_FAILURE, "pipe", strerror(errno));
    }
    pid_t child = fork();
    if (child < 0) {
        die(EXIT_OWN_FAILURE, "fork", strerror(errno));
    }
    if (child == 0) {
        char byte;
        close(go[1]);
        ssize_t got = read(go[0], &byte, 1);
        close(go[0]);
        signal(SIGINT, SIG_DFL);
        if (got == 1) {
            execvp(words[0], words);
            int error = errno;
            got = write(error_fd, &error, sizeof error);
        }
        _exit(EXIT_OWN_FAILURE);
    }
    intptr_t options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, NULL, (void *)options) != 0) {
        die(EXIT_OWN_FAILURE, "ptrace", strerror(errno));
    }
    if (write(go[1], "g", 1) != 1) {
        die(EXIT_OWN_FAILURE, "write", strerror(errno));
    }
    close(go[0]);
    close(go[1]);
    return child;
}

int main(int argc, char **argv) {
    if (argc < 5 || strcmp(argv[3], "--") != 0) {
        die(EXIT_OWN_FAILURE, "usage", "family OUTPUT LIBRARY -- command [argument...]");
    }
    library = argv[2];
    programs = calloc(PROGRAM_LIMIT, sizeof *programs); /* touched as far as it is used */
    FILE *out = fopen(argv[1], "we");
    int error[2];
    if (out == NULL || programs == NULL || pipe2(error, O_CLOEXEC) != 0) {
        die(EXIT_OWN_FAILURE, argv[1], strerror(errno));
    }
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the command too */
    pid_t command = start(argv + 4, error[1]);
    close(error[1]);
    int status = follow(command);
    int exec_error;
    if (read(error[0], &exec_error, sizeof exec_error) == sizeof exec_error) {
        die(exec_error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE, argv[4],
            strerror(exec_error));
    }
    for (size_t i = 0; i < program_count; i++) {
        const struct program *program = &programs[i];
        fprintf(out, "%d%c%s%c%s%c%s%c\n", (int)program->process, 0,
                program->has_preload ? "preload" : "bare", 0, program->mapped, 0, program->path, 0);
    }
    if (fflush(out) != 0) {
        die(EXIT_OWN_FAILURE, argv[1], strerror(errno));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
