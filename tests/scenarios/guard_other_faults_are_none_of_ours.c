// expect: exit 0
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A null pointer, and a signal that is sent, end the program as without the shim, and silently. */
#include "guarded.h"

#include <signal.h>
#include <sys/wait.h>

static void touch_null(void) { *(volatile int *)claim_hide(NULL) = 1; }

static void send_to_itself(void) { kill(getpid(), SIGBUS); }

static int signal_of(void (*act)(void)) {
    pid_t pid = fork();
    CLAIM(pid >= 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(void) {
    CLAIM(signal_of(touch_null) == SIGSEGV);
    CLAIM(signal_of(send_to_itself) == SIGBUS);
    return 0;
}
