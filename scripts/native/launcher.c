/* SPDX-License-Identifier: MIT */
/*
 * Runs one command and reports its wall, user and system time, its peak RSS and what it had mapped,
 * as one JSON object. Callers: poolshim_cli, bench/harness, scripts, tests, people.
 *
 * Why not measure from Python: a child's ru_maxrss starts at the RSS of the process that forked it,
 * so /bin/true started from a 300 MiB Python "needs" 300 MiB. This program is about 1 MiB. It also
 * reads VmHWM, which exec starts afresh, at the moment before the child's memory is torn down, and
 * RSS and private dirty memory at that moment.
 *
 * Why ptrace: the proof that a library really was in the measured process. The child is seized with
 * PTRACE_O_TRACEEXIT only: it runs untouched and stops once, at exit, while /proc/<pid>/maps still
 * exists. That stop is taken out of the wall time. Where ptrace is forbidden the maps are polled
 * every millisecond until the library shows, for half a second.
 *
 * Exit status: the command's own, 128 + n if signal n ended it; 125 if this program failed or the
 * expected library was not mapped, 126 if the command cannot be executed, 127 if it was not found.
 * One thread, no locks.
 */
#include "scripts/native/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_OWN_FAILURE = 125, EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };
enum { ENVIRONMENT_LIMIT = 64, POLL_MS = 1, POLL_COUNT = 500 };

struct request {
    const char *output_path; /* NULL: standard error; "-": standard output */
    const char *expected;    /* library that must be mapped, resolved; NULL: none requested */
    uint64_t sample_ms;      /* 0: no samples */
    bool is_family;          /* samples count the command's descendants, too */
    bool is_untraced;        /* no ptrace, no look at the maps: set-user-ID programs remain such */
    uint64_t warm_mib;       /* memory to touch and release before the start; 0: none */
    char **environment;      /* NAME=VALUE, for the command only */
    size_t environment_count;
    char **command;
};

struct result {
    const char *name; /* this program's, for complaints: its caller may give it another */
    uint64_t wall_ns;
    uint64_t stopped_ns; /* spent in the exit stop; not part of wall_ns */
    int wait_status;
    struct rusage usage;
    struct observation seen;
};

static struct result result = {.name = "launcher"};

__attribute__((noreturn)) static void die(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s%s%s\n", result.name, what, why == NULL ? "" : ": ",
            why == NULL ? "" : why);
    exit(status);
}

/* ---- running the command ---- */

/* The host may have taken idle memory back, and getting it again costs seconds per GiB. */
static void warm_memory(uint64_t mib) {
    pid_t child = fork();
    if (child == 0) {
        size_t bytes = (size_t)mib << 20;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            _exit(1);
        }
        madvise(memory, bytes, MADV_HUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096) {
            ((volatile char *)memory)[at] = 1;
        }
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "launcher: could not touch %llu MiB beforehand\n", (unsigned long long)mib);
    }
}

/* In the child: blocks until the go, becomes the command. Reports a failed exec by `error_fd`. */
__attribute__((noreturn)) static void become_command(const struct request *request, int go_fd,
                                                     int error_fd) {
    char go;
    if (read(go_fd, &go, 1) != 1) {
        _exit(EXIT_OWN_FAILURE);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < request->environment_count; i++) {
        putenv(request->environment[i]);
    }
    execvp(request->command[0], request->command);
    int error = errno;
    ssize_t ignored = write(error_fd, &error, sizeof(error));
    (void)ignored;
    _exit(EXIT_OWN_FAILURE);
}

/* One stop of a seized child: read its figures if it is about to exit, pass signals on, resume it.
 */
static void handle_stop(pid_t child, int status, const struct request *request) {
    int event = status >> 16;
    int signal_number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT) {
        uint64_t stopped_at = now_ns();
        observe_maps(&result.seen, child, request->expected);
        observe_memory(&result.seen, child);
        result.stopped_ns += now_ns() - stopped_at;
    }
    if (event == PTRACE_EVENT_STOP && signal_number != SIGTRAP) {
        ptrace(PTRACE_LISTEN, child, NULL, NULL); /* a job-control stop: leave it stopped */
        return;
    }
    ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)(event == 0 ? signal_number : 0));
}

/* Sleeps until the child changes state or `interval_ns` has passed; true: the time is over. */
static bool is_interval_over(uint64_t interval_ns) {
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    struct timespec timeout = {.tv_sec = (time_t)(interval_ns / 1000000000u),
                               .tv_nsec = (long)(interval_ns % 1000000000u)};
    return sigtimedwait(&child_signal, NULL, &timeout) < 0 && errno == EAGAIN;
}

/* Looks at the running child; where ptrace is forbidden, also at its maps, for a while. */
static void look_at(pid_t child, const struct request *request, unsigned *polls_left) {
    if (request->sample_ms != 0) {
        observe_sample(&result.seen, child, request->is_family);
    }
    if (*polls_left != 0) {
        observe_maps(&result.seen, child, request->expected);
        *polls_left = result.seen.is_expected_mapped ? 0 : *polls_left - 1;
        if (*polls_left == 0) {
            result.seen.sample_interval_ns = request->sample_ms * 1000000u;
        }
    }
}

static void wait_for_exit(pid_t child, const struct request *request, bool is_seized) {
    bool is_polled = !is_seized && !request->is_untraced;
    unsigned polls_left = is_polled ? POLL_COUNT : 0;
    result.seen.sample_interval_ns = (is_polled ? POLL_MS : request->sample_ms) * 1000000u;
    for (;;) {
        int flags = result.seen.sample_interval_ns == 0 ? __WALL : __WALL | WNOHANG;
        pid_t found = wait4(child, &result.wait_status, flags, &result.usage);
        if (found < 0 && errno == EINTR) {
            continue;
        }
        if (found < 0) {
            die(EXIT_OWN_FAILURE, "wait4", strerror(errno));
        }
        if (found == child && WIFSTOPPED(result.wait_status)) {
            handle_stop(child, result.wait_status, request);
            continue;
        }
        if (found == child) {
            result.wall_ns = now_ns() - result.seen.start_ns - result.stopped_ns;
            return;
        }
        if (is_interval_over(result.seen.sample_interval_ns)) {
            look_at(child, request, &polls_left);
        }
    }
}

static void run_command(const struct request *request) {
    int go[2];
    int error[2];
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0) {
        die(EXIT_OWN_FAILURE, "pipe", strerror(errno));
    }
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, NULL);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the command too; report how it took it. */
    signal(SIGQUIT, SIG_IGN);
    pid_t child = fork();
    if (child < 0) {
        die(EXIT_OWN_FAILURE, "fork", strerror(errno));
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        become_command(request, go[0], error[1]);
    }
    close(error[1]);
    intptr_t options = PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
    bool is_seized =
        !request->is_untraced && ptrace(PTRACE_SEIZE, child, NULL, (void *)options) == 0;
    result.seen.start_ns = now_ns();
    if (write(go[1], "g", 1) != 1) {
        die(EXIT_OWN_FAILURE, "write", strerror(errno));
    }
    wait_for_exit(child, request, is_seized);
    int exec_error;
    if (read(error[0], &exec_error, sizeof(exec_error)) == sizeof(exec_error)) {
        die(exec_error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE, request->command[0],
            strerror(exec_error));
    }
}

/* ---- the report ---- */

/* Bytes outside ASCII go through as they are: paths are UTF-8 as a rule. */
static void print_json_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            fprintf(out, "\\%c", byte);
        } else if (byte < 0x20) {
            fprintf(out, "\\u%04x", byte);
        } else {
            putc(byte, out);
        }
    }
    putc('"', out);
}

static void print_string_list(FILE *out, char *const *strings, size_t count) {
    putc('[', out);
    for (size_t i = 0; i < count && strings[i] != NULL; i++) {
        fputs(i == 0 ? "" : ", ", out);
        print_json_string(out, strings[i]);
    }
    putc(']', out);
}

static void print_number_or_null(FILE *out, const char *name, bool is_known, uint64_t value) {
    if (is_known) {
        fprintf(out, ", \"%s\": %llu", name, (unsigned long long)value);
    } else {
        fprintf(out, ", \"%s\": null", name);
    }
}

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void print_result(FILE *out, const struct request *request) {
    const struct rusage *usage = &result.usage;
    int status = result.wait_status;
    fputs("{\"command\": ", out);
    print_string_list(out, request->command, SIZE_MAX);
    fprintf(out, ", \"wall_s\": %.6f, \"user_s\": %.6f, \"sys_s\": %.6f",
            (double)result.wall_ns / 1e9, seconds(usage->ru_utime), seconds(usage->ru_stime));
    fprintf(out, ", \"max_rss_kib\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld",
            usage->ru_maxrss, usage->ru_minflt, usage->ru_majflt);
    print_number_or_null(out, "peak_rss_kib", result.seen.peak_rss_kib != 0,
                         result.seen.peak_rss_kib);
    print_number_or_null(out, "last_rss_kib", result.seen.last_rss_kib != 0,
                         result.seen.last_rss_kib);
    print_number_or_null(out, "last_dirty_kib", result.seen.last_dirty_kib != 0,
                         result.seen.last_dirty_kib);
    print_number_or_null(out, "exit_status", WIFEXITED(status), (uint64_t)WEXITSTATUS(status));
    print_number_or_null(out, "signal", WIFSIGNALED(status), (uint64_t)WTERMSIG(status));
    fputs(", \"expected\": ", out);
    if (request->expected == NULL) {
        fputs("null, \"is_expected_mapped\": null", out);
    } else {
        print_json_string(out, request->expected);
        fprintf(out, ", \"is_expected_mapped\": %s",
                result.seen.is_expected_mapped ? "true" : "false");
    }
    fprintf(out, ", \"has_maps\": %s, \"mapped\": ", result.seen.has_maps ? "true" : "false");
    print_string_list(out, result.seen.mapped, result.seen.mapped_count);
    fprintf(out, ", \"start_ns\": %llu", (unsigned long long)result.seen.start_ns);
    fputs(", \"samples\": [", out);
    for (size_t i = 0; i < result.seen.sample_count; i++) {
        fprintf(out, "%s[%.3f, %llu]", i == 0 ? "" : ", ",
                (double)result.seen.samples[i].time_ns / 1e6,
                (unsigned long long)result.seen.samples[i].rss_kib);
    }
    fputs("]}\n", out);
}

static FILE *open_output(const char *path) {
    if (path == NULL) {
        return stderr;
    }
    if (strcmp(path, "-") == 0) {
        return stdout;
    }
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        die(EXIT_OWN_FAILURE, path, strerror(errno));
    }
    return out;
}

/* ---- the command line ---- */

static void print_help(void) {
    puts("usage: launcher [options] -- command [argument...]\n"
         "\n"
         "Runs the command and reports times, peak RSS and mapped files as one JSON object.\n"
         "  -o FILE               where to: a file, or - for standard output (standard error)\n"
         "  --env NAME=VALUE      for the command only; may be repeated\n"
         "  --expect-mapped FILE  exit status 125 unless the command had this library mapped\n"
         "  --samples MS          RSS every so many milliseconds\n"
         "  --family              in the samples: with all descendants of the command\n"
         "  --untraced            without ptrace: only times and max_rss_kib are known\n"
         "  --warm-mib N          first touch and release N MiB, so that the host backs them\n"
         "\n"
         "Exit status: the command's; 125 own failure, 126 cannot execute, 127 not found.");
}

static uint64_t parse_number(const char *option, const char *text, uint64_t max) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > max) {
        fprintf(stderr, "launcher: %s: \"%s\" is not a whole number from 0 to %llu\n", option, text,
                (unsigned long long)max);
        exit(EXIT_OWN_FAILURE);
    }
    return value;
}

static void add_environment(struct request *request, char *assignment) {
    if (strchr(assignment, '=') == NULL || assignment[0] == '=') {
        die(EXIT_OWN_FAILURE, "--env needs NAME=VALUE, not", assignment);
    }
    if (request->environment_count == ENVIRONMENT_LIMIT) {
        die(EXIT_OWN_FAILURE, "too many --env", NULL);
    }
    request->environment[request->environment_count++] = assignment;
}

static void parse_request(struct request *request, int argc, char **argv) {
    enum {
        OPTION_ENV = 1,
        OPTION_EXPECT,
        OPTION_SAMPLES,
        OPTION_FAMILY,
        OPTION_UNTRACED,
        OPTION_WARM,
        OPTION_HELP
    };
    static const struct option table[] = {
        {"env", required_argument, NULL, OPTION_ENV},
        {"expect-mapped", required_argument, NULL, OPTION_EXPECT},
        {"samples", required_argument, NULL, OPTION_SAMPLES},
        {"family", no_argument, NULL, OPTION_FAMILY},
        {"untraced", no_argument, NULL, OPTION_UNTRACED},
        {"warm-mib", required_argument, NULL, OPTION_WARM},
        {"help", no_argument, NULL, OPTION_HELP},
        {0},
    };
    for (int found; (found = getopt_long(argc, argv, "+o:", table, NULL)) != -1;) {
        switch (found) {
        case 'o':
            request->output_path = optarg;
            break;
        case OPTION_ENV:
            add_environment(request, optarg);
            break;
        case OPTION_EXPECT:
            request->expected = realpath(optarg, NULL);
            if (request->expected == NULL) {
                die(EXIT_OWN_FAILURE, optarg, strerror(errno));
            }
            break;
        case OPTION_SAMPLES:
            request->sample_ms = parse_number("--samples", optarg, 3600000);
            break;
        case OPTION_FAMILY:
            request->is_family = true;
            break;
        case OPTION_UNTRACED:
            request->is_untraced = true;
            break;
        case OPTION_WARM:
            request->warm_mib = parse_number("--warm-mib", optarg, 1u << 20);
            break;
        case OPTION_HELP:
            print_help();
            exit(0);
        default:
            exit(EXIT_OWN_FAILURE);
        }
    }
    request->command = argv + optind;
    if (request->command[0] == NULL) {
        die(EXIT_OWN_FAILURE, "no command given; see --help", NULL);
    }
}

/* Of a path its last part. */
static void name_by(const char *called) {
    const char *slash = strrchr(called, '/');
    const char *name = slash == NULL ? called : slash + 1;
    result.name = name[0] != '\0' ? name : result.name;
}

int main(int argc, char **argv) {
    static char *environment[ENVIRONMENT_LIMIT];
    struct request request = {.environment = environment};
    name_by(argc > 0 ? argv[0] : "");
    parse_request(&request, argc, argv);
    FILE *out = open_output(request.output_path);
    if (request.warm_mib != 0) {
        warm_memory(request.warm_mib);
    }
    run_command(&request);
    print_result(out, &request);
    if (fflush(out) != 0 || ferror(out)) {
        die(EXIT_OWN_FAILURE, "cannot write the result", strerror(errno));
    }
    if (request.expected != NULL && !result.seen.is_expected_mapped) {
        die(EXIT_OWN_FAILURE, "not mapped in the command", request.expected);
    }
    int status = result.wait_status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
