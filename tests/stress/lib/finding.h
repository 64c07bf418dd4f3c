/* SPDX-License-Identifier: MIT */
/*
 * How the checker reports: one line on stderr with the seed, the thread and its operation, then
 * exit status 1. Works with a broken heap under it: formats on the stack, writes by write(2).
 */
#ifndef PS_STRESS_FINDING_H
#define PS_STRESS_FINDING_H

#include <stdint.h>

/* Where the calling thread is; shown with a finding. */
struct finding_place {
    uint64_t thread_serial;
    uint64_t operation;
};

extern uint64_t finding_seed;
extern __thread struct finding_place finding_place;

/* Prints "checker: seed S thread T op N: <message>" and ends the process with status 1. */
__attribute__((noreturn, format(printf, 1, 2))) void finding_report(const char *format, ...);

#endif
