/* SPDX-License-Identifier: MIT */
/*
 * Runs a program and makes chosen system calls of one of its libraries fail: a seccomp filter
 * notifies this process of every such call before the kernel does it. Used by inject.c. One run at
 * a time.
 */
#ifndef PS_TESTS_FAULTS_SUPERVISOR_H
#define PS_TESTS_FAULTS_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LIMIT 8192
#define PLAN_CALLS_LIMIT 8

struct plan {
    int calls[PLAN_CALLS_LIMIT]; /* system call numbers that are counted and may fail */
    size_t call_count;
    uint64_t nth;   /* the first of them that fails; 0: none */
    uint64_t count; /* so many in a row */
    int error;
    const char *from;    /* only calls made by code of files with this in their name; NULL: all */
    const char *preload; /* LD_PRELOAD of the program; NULL: none */
    bool is_armed;       /* count from MARKER_BEGIN on, not from the start of the program */
    int seconds;         /* then the program hangs, and is killed */
};

struct outcome {
    int status; /* as waitpid has it */
    bool is_hanging;
    uint64_t seen; /* calls counted */
    uint64_t injected;
    char output[OUTPUT_LIMIT]; /* stdout and stderr, ended by 0 */
};

/* False: this system cannot do it, `why` names the refused call. */
bool supervise(const struct plan *plan, char **command, struct outcome *outcome, const char **why);

#endif
