// expect: exit 0 "poolshim: use after free (write) at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A child frees its parent's guarded blocks and makes its own; its mistakes are reported too. */
#include "guarded.h"

#include <signal.h>
#include <sys/wait.h>

static void child(char *inherited, char *freed) {
    CLAIM(claim_is_filled(inherited, 63, 1));
    free_here(inherited);
    for (int i = 0; i < 1000; i++) {
        char *block = allocate_here(63, GUARDED_END);
        memset(block, 1, 63);
        free(block);
        if (i == 100) {
            pid_t pid = fork();
            if (pid == 0) {
                free(allocate_here(63, GUARDED_BEGIN));
                _exit(0);
            }
            int status = 1;
            CLAIM(waitpid(pid, &status, 0) == pid && status == 0);
        }
    }
    free_here(allocate_here(63, GUARDED_BEGIN));
    freed = allocate_here(63, GUARDED_BEGIN);
    free_here(freed);
    freed[0] = 1;
}

int main(void) {
    char *block = allocate_here(63, GUARDED_END);
    claim_fill(block, 63, 1);
    pid_t pid = fork();
    CLAIM(pid >= 0);
    if (pid == 0) {
        child(block, NULL);
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(pid, &status, 0) == pid);
    CLAIM(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CLAIM(claim_is_filled(block, 63, 1)); /* the child's free is the child's */
    free(block);
    return 0;
}
