/* SPDX-License-Identifier: MIT */
/* Reports the first finding; see finding.h. Later findings of other threads block until the exit.
 * */
#include "tests/stress/lib/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

uint64_t finding_seed;
__thread struct finding_place finding_place;

static int is_reported;

void finding_report(const char *format, ...) {
    while (__atomic_exchange_n(&is_reported, 1, __ATOMIC_ACQ_REL) != 0) {
        pause(); /* another thread is about to end the process */
    }
    char line[1024];
    int used =
        snprintf(line, sizeof line - 1,
                 "checker: seed %llu thread %llu op %llu: ", (unsigned long long)finding_seed,
                 (unsigned long long)finding_place.thread_serial,
                 (unsigned long long)finding_place.operation);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - 1 - (size_t)used, format, arguments);
    va_end(arguments);
    used = used < (int)sizeof line - 1 ? used : (int)sizeof line - 2;
    line[used++] = '\n';
    ssize_t written = write(2, line, (size_t)used);
    (void)written;
    _exit(1);
}
