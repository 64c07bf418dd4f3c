// expect: exit 0
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A program's own handler that passes nothing on has the fault for itself, as without sampling. */
#include "guarded.h"

#include <signal.h>

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    _exit(number == SIGSEGV && info->si_addr != NULL ? 0 : 1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CLAIM(sigaction(SIGSEGV, &action, NULL) == 0);
    char *block = allocate_here(63, GUARDED_BEGIN);
    free_here(block);
    block[1] = 1;
    return 1;
}
