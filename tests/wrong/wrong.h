/* SPDX-License-Identifier: MIT */
/*
 * Wrong calls, each in a process of its own: a program prints what it says, or the signal that
 * ended it. test_wrong_calls.py runs one with an allocator and on the shim, and compares the lines.
 */
#ifndef PS_TESTS_WRONG_H
#define PS_TESTS_WRONG_H

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASES_MOST 200
#define SAID_BYTES 512

static struct wrong_case {
    const char *name;
    void (*run)(void);
} wrong_cases[CASES_MOST];
static size_t wrong_count;
static char said[SAID_BYTES];

/* CASE(name) { ... }, and a line of results from it. */
#define CASE(name)                                                                                 \
    static void case_##name(void);                                                                 \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        wrong_cases[wrong_count++] = (struct wrong_case){#name, case_##name};                      \
    }                                                                                              \
    static void case_##name(void)

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list arguments;
    size_t length = strlen(said);
    va_start(arguments, format);
    (void)vsnprintf(said + length, sizeof said - length, format, arguments);
    va_end(arguments);
}

static void run_case(const struct wrong_case *one) {
    int ends[2];
    char got[SAID_BYTES] = "";
    int status;
    if (pipe(ends) != 0 || fflush(stdout) != 0) {
        exit(2);
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(2);
        one->run();
        _exit(write(ends[1], said, strlen(said)) < 0);
    }
    (void)close(ends[1]);
    if (read(ends[0], got, sizeof got - 1) < 0 || waitpid(child, &status, 0) != child) {
        exit(2);
    }
    (void)close(ends[0]);
    if (WIFSIGNALED(status)) {
        printf("%s: signal %d\n", one->name, WTERMSIG(status));
    } else {
        printf("%s: %s\n", one->name, got);
    }
}

int main(void) {
    for (size_t i = 0; i < wrong_count; i++) {
        run_case(&wrong_cases[i]);
    }
    return 0;
}

#endif
