/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark programs share: the clock, numbers on the command line, the process's own
 * peak. Included by bench/<name>.c only. Calls libc, never the allocator: nothing here may disturb
 * the heap that is being measured. No locks, no state.
 */
#ifndef PS_BENCH_LIB_BENCH_H
#define PS_BENCH_LIB_BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Exit statuses of a benchmark program. */
enum { BENCH_EXIT_WRONG = 1, BENCH_EXIT_USAGE = 2 };

/* Wall clock in nanoseconds; monotonic. */
static inline uint64_t bench_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time of the process or the thread (CLOCK_*_CPUTIME_ID): what others use does not count. */
static inline uint64_t bench_cpu_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double bench_ms(uint64_t ns) { return (double)ns / 1e6; }

/* Millions of operations per second; 0 where the clock saw no time pass. */
static inline double bench_mops(uint64_t operations, uint64_t ns) {
    return ns == 0 ? 0.0 : (double)operations * 1e3 / (double)ns;
}

/* The number in `text`, from `min` to `max`; otherwise one line on stderr and exit status 2. */
static inline uint64_t bench_parse_number(const char *option, const char *text, uint64_t min,
                                          uint64_t max) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    if (!is_number || value < min || value > max) {
        fprintf(stderr, "%s: \"%s\" is not a whole number from %llu to %llu\n", option, text,
                (unsigned long long)min, (unsigned long long)max);
        exit(BENCH_EXIT_USAGE);
    }
    return value;
}

/* The number after `key` in a file of /proc; 0 where it cannot be read. */
static inline uint64_t bench_proc_number(const char *path, const char *key) {
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    const char *line = strstr(text, key);
    return line == NULL ? 0 : strtoull(line + strlen(key), NULL, 10);
}

/*
 * Peak resident set of this process image in KiB, 0 where unknown. VmHWM belongs to the address
 * space, so exec starts it afresh; ru_maxrss would carry over the peak of the parent.
 */
static inline uint64_t bench_peak_rss_kib(void) {
    return bench_proc_number("/proc/self/status", "VmHWM:");
}

#endif
