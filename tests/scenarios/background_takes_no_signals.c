// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=60000
/* SPDX-License-Identifier: MIT */
/*
 * Signals sent to the process are the program's threads': the background thread blocks all. The
 * thread that creates another has its own mask afterwards; setuid, for which libc sends a signal of
 * its own to every thread, comes back.
 */
#include "tasks.h"

#include <pthread.h>
#include <signal.h>

#define SIGNALS 500

static volatile sig_atomic_t wrong_thread;
static volatile sig_atomic_t received;
static int background;

static void handle(int number) {
    (void)number;
    received++;
    wrong_thread |= gettid() == background;
}

static void *wait_for_signals(void *unused) {
    while (received < SIGNALS) {
        free(claim_hide(malloc(100)));
        sched_yield();
    }
    return unused;
}

/* Bits of SigBlk of the background thread. */
static unsigned long long blocked_there(void) {
    char task[32];
    char text[4096];
    snprintf(task, sizeof task, "%d", background);
    tasks_read(task, "status", text, sizeof text);
    const char *line = strstr(text, "SigBlk:");
    CLAIM(line != NULL);
    return strtoull(line + 7, NULL, 16);
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigset_t before;
    sigset_t after;
    pthread_t thread;
    CLAIM(sigaction(SIGUSR1, &action, NULL) == 0);
    CLAIM(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    CLAIM(pthread_create(&thread, NULL, wait_for_signals, NULL) == 0);
    CLAIM(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    for (int number = 1; number <= SIGRTMAX; number++) { /* musl writes a part of a set */
        CLAIM(sigismember(&before, number) == sigismember(&after, number));
    }
    tasks_await(3, 1);
    background = tasks_list().background;
    for (int number = 1; number <= SIGRTMAX; number++) {
        int is_unblockable = number == SIGKILL || number == SIGSTOP;
        int is_of_libc = number > SIGSYS && number < SIGRTMIN;
        CLAIM(is_unblockable || is_of_libc || (blocked_there() >> (number - 1) & 1) == 1);
    }
    CLAIM(setuid(getuid()) == 0);
    while (received < SIGNALS) {
        int already = received;
        CLAIM(kill(getpid(), SIGUSR1) == 0);
        while (received == already) {
            sched_yield();
        }
    }
    CLAIM(pthread_join(thread, NULL) == 0);
    CLAIM(!wrong_thread);
    CLAIM(tasks_list().background == background);
    return 0;
}
