// expect: SIGSEGV "the program's handler" "poolshim: use after free (write)"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A program's own handler that calls the one from before gets the report. */
#include "guarded.h"

#include <signal.h>

static struct sigaction earlier;

static void on_fault(int number, siginfo_t *info, void *context) {
    dprintf(2, "the program's handler\n");
    earlier.sa_sigaction(number, info, context);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CLAIM(sigaction(SIGSEGV, &action, &earlier) == 0);
    char *block = allocate_here(63, GUARDED_BEGIN);
    free_here(block);
    block[1] = 1;
    return 0;
}
