/* SPDX-License-Identifier: MIT */
/*
 * Runs a command in a control group of version 2 and prints, as JSON, the memory of its processes
 * over time, how often they were switched and, with -c, system calls. For scripts/dev/machine,
 * which runs it in the machine that it emulates; root.
 *
 *     watch [-c] GROUP SECONDS COMMAND...
 *
 * Memory is what smaps_rollup has as Pss_Anon and Pss_Shmem, of all processes of the group, every
 * 50 ms: the kernel counts it in the page tables. What is cheaper lags, memory.stat of a group and
 * the RSS in statm, by up to 64 pages per processor or thread: 16 MiB of 64. Mean is over the time
 * of the load, which ends with the command or at its line "load ended"; then nothing happens for
 * three seconds, whose last 0.4 are at rest, and standard input ends.
 * System calls are counted by the kernel, at its tracepoints, from exec on: no thread stops there,
 * as it would under strace, which changes how threads meet.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_MS = 50, REST_MS = 3000, MEDIAN_MS = 400, MEDIAN_LIMIT = 64 };
enum { PATH_BYTES = 256, TIMED_OUT = 124, NOT_FOUND = 127 };

static const char ENDED[] = "load ended";
static const char *const CALLS[] = {"madvise",  "mincore", "munmap", "mmap",
                                    "mprotect", "brk",     "futex",  "clock_gettime"};
enum { CALL_COUNT = sizeof CALLS / sizeof CALLS[0] };

static const char *group;
static int counters[CALL_COUNT];
static int input; /* writes the command's standard input; -1: ended */
static bool is_counting;
static uint64_t limit_ms; /* when it is killed; 0: it has been */

static struct figures {
    uint64_t samples;
    double area_mib_ms; /* under the curve, until the load ended */
    double load_ms;
    double last_mib;
    double peak_mib;
    double rest[MEDIAN_LIMIT];
    size_t rest_count;
} figures;

static struct output {
    int from; /* the command's standard output, -1 after its end */
    char start[sizeof ENDED];
    size_t column;
    uint64_t ended_ms; /* when the load ended; 0: it has not */
} output;

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void fail(const char *what) {
    fprintf(stderr, "watch: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The bytes read, ended by a zero; 0 if there is no such file any more. */
static size_t read_file(const char *path, char *text, size_t bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, bytes - 1);
    if (file >= 0) {
        close(file);
    }
    text[got < 0 ? 0 : got] = 0;
    return got < 0 ? 0 : (size_t)got;
}

static void write_group(const char *name, const char *text) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) < 0) {
        fail(path);
    }
    close(file);
}

static double mib_of_process(long pid) {
    char path[PATH_BYTES];
    char text[4096];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    read_file(path, text, sizeof text);
    static const char *const names[] = {"\nPss_Anon:", "\nPss_Shmem:"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *found = strstr(text, names[i]);
        kib += found ? strtoull(found + strlen(names[i]), NULL, 10) : 0;
    }
    return (double)kib / 1024;
}

/* since_ms: the time of the sample before; this one stands for the time from then on. */
static void sample(uint64_t since_ms, uint64_t ms) {
    char path[PATH_BYTES];
    char text[4096];
    double mib = 0;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    read_file(path, text, sizeof text);
    for (char *at = text, *end; *at; at = *end ? end + 1 : end) {
        mib += mib_of_process(strtol(at, &end, 10));
    }
    if (mib == 0) {
        return; /* it has ended */
    }
    figures.samples++;
    figures.last_mib = mib;
    figures.peak_mib = mib > figures.peak_mib ? mib : figures.peak_mib;
    if (output.ended_ms == 0) {
        figures.area_mib_ms += mib * (double)(ms - since_ms);
        figures.load_ms += (double)(ms - since_ms);
        return;
    }
    uint64_t rested_ms = ms - output.ended_ms;
    bool is_at_rest = rested_ms >= REST_MS - MEDIAN_MS && input >= 0;
    if (is_at_rest && figures.rest_count < MEDIAN_LIMIT) {
        figures.rest[figures.rest_count++] = mib;
    }
}

static int open_counter(const char *call, pid_t pid) {
    char path[PATH_BYTES];
    char text[32];
    snprintf(path, sizeof path, "/sys/kernel/tracing/events/syscalls/sys_enter_%s/id", call);
    if (read_file(path, text, sizeof text) == 0) {
        fail(path);
    }
    struct perf_event_attr counted = {
        .type = PERF_TYPE_TRACEPOINT,
        .size = sizeof counted,
        .config = strtoull(text, NULL, 10),
        .disabled = 1,
        .enable_on_exec = 1,
        .inherit = 1,
    };
    long file = syscall(SYS_perf_event_open, &counted, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (file < 0) {
        fail("perf_event_open");
    }
    return (int)file;
}

/* Passes on what the command has printed, and sees whether a line says that the load has ended. */
static void pass_on(void) {
    char text[4096];
    ssize_t bytes = read(output.from, text, sizeof text);
    if (bytes <= 0) {
        close(output.from);
        output.from = -1;
        return;
    }
    for (ssize_t i = 0; i < bytes; i++) {
        if (text[i] == '\n') {
            if (memcmp(output.start, ENDED, sizeof ENDED - 1) == 0) {
                output.ended_ms = now_ms();
            }
            output.column = 0;
            memset(output.start, 0, sizeof output.start);
        } else if (output.column < sizeof ENDED - 1) {
            output.start[output.column++] = text[i];
        }
    }
    fwrite(text, 1, (size_t)bytes, stdout);
    fflush(stdout);
}

static void start(char **command, int standard_input, int gate) {
    char text;
    write_group("cgroup.procs", "0");
    if (dup2(standard_input, STDIN_FILENO) < 0 || dup2(output.from, STDOUT_FILENO) < 0 ||
        read(gate, &text, 1) < 0) {
        fail("start");
    }
    execvp(command[0], command);
    fprintf(stderr, "watch: %s: %s\n", command[0], strerror(errno));
    _exit(NOT_FOUND);
}

/* Returns the command's process. */
static pid_t run(char **command) {
    int in[2];
    int out[2];
    int gate[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(gate, O_CLOEXEC) < 0) {
        fail("pipe");
    }
    pid_t pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        output.from = out[1];
        close(gate[1]);
        start(command, in[0], gate[0]);
    }
    for (size_t i = 0; is_counting && i < CALL_COUNT; i++) {
        counters[i] = open_counter(CALLS[i], pid);
    }
    close(in[0]);
    close(out[1]);
    close(gate[0]);
    close(gate[1]); /* the command starts */
    output.from = out[0];
    input = in[1];
    return pid;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Samples, and passes output on, until the command has ended; returns the status of wait. */
static int watch(pid_t pid, struct rusage *usage) {
    uint64_t sampled_ms = now_ms();
    uint64_t next_ms = sampled_ms + SAMPLE_MS;
    int status = 0;
    while (wait4(pid, &status, WNOHANG, usage) == 0) {
        uint64_t ms = now_ms();
        if (ms >= next_ms) {
            sample(sampled_ms, ms);
            sampled_ms = ms;
            next_ms = now_ms() + SAMPLE_MS;
        }
        if (output.ended_ms != 0 && figures.rest_count > 0 && input >= 0 &&
            ms >= output.ended_ms + REST_MS) {
            close(input);
            input = -1;
        }
        if (limit_ms != 0 && ms >= limit_ms) {
            limit_ms = 0;
            write_group("cgroup.kill", "1");
        }
        struct pollfd waits = {.fd = output.from, .events = POLLIN};
        if (poll(&waits, 1, next_ms > ms ? (int)(next_ms - ms) : 0) > 0) {
            pass_on();
        }
    }
    struct pollfd left = {.fd = output.from, .events = POLLIN};
    while (output.from >= 0 && poll(&left, 1, 0) > 0) {
        pass_on();
    }
    return status;
}

static void print_figures(int status, const struct rusage *usage) {
    double mean = figures.load_ms > 0 ? figures.area_mib_ms / figures.load_ms : figures.last_mib;
    printf("%swatched: {\"status\": %d, \"samples\": %" PRIu64, output.column ? "\n" : "", status,
           figures.samples);
    printf(", \"mean_mib\": %.2f, \"peak_mib\": %.2f", mean, figures.peak_mib);
    if (figures.rest_count > 0) {
        qsort(figures.rest, figures.rest_count, sizeof figures.rest[0], by_size);
        printf(", \"rest_mib\": %.2f", figures.rest[figures.rest_count / 2]);
    }
    printf(", \"voluntary\": %ld, \"involuntary\": %ld", usage->ru_nvcsw, usage->ru_nivcsw);
    for (size_t i = 0; is_counting && i < CALL_COUNT; i++) {
        uint64_t count = 0;
        if (read(counters[i], &count, sizeof count) != sizeof count) {
            fail(CALLS[i]);
        }
        printf(", \"%s\": %" PRIu64, CALLS[i], count);
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "+c")) == 'c') {
        is_counting = true;
    }
    if (option != -1 || argc - optind < 3) {
        fputs("usage: watch [-c] GROUP SECONDS COMMAND...\n", stderr);
        return 2;
    }
    struct rusage usage;
    group = argv[optind];
    limit_ms = now_ms() + strtoull(argv[optind + 1], NULL, 10) * 1000;
    pid_t pid = run(argv + optind + 2);
    int status = watch(pid, &usage);
    write_group("cgroup.kill", "1"); /* the descendants that still run */
    if (limit_ms == 0) {
        fprintf(stderr, "watch: the command takes longer than %s s\n", argv[optind + 1]);
        status = TIMED_OUT;
    } else {
        status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    print_figures(status, &usage);
    return 0;
}
