// expect: exit 0
// marks: fork
// lib: early_handlers.c
/* SPDX-License-Identifier: MIT */
/*
 * fork handlers of a library that registered them before the allocator started: their prepare runs
 * after the allocator's, takes a mutex whose owner allocates, and allocates itself; their
 * child handler runs first in the child, and allocates there.
 */
#include "claim.h"
#include "preload_order.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#define FORKS 300
#define WORKERS 3

static volatile int is_over;
static void (*work)(void);

static void *work_until_over(void *unused) {
    (void)unused;
    while (!is_over) {
        work();
        free(claim_hide(malloc(200000)));
    }
    return NULL;
}

int main(int count, char **arguments) {
    (void)count;
    preload_order_restart(arguments, "early_handlers", PRELOAD_ORDER_AFTER);
    work = (void (*)(void))dlsym(RTLD_DEFAULT, "early_handlers_work");
    CLAIM(work != NULL);
    slowness_alarm(50);
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, work_until_over, NULL) == 0);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            work();
            _exit(0);
        }
        int status = 0;
        CLAIM(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (int i = 0; i < WORKERS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
