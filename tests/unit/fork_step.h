/* SPDX-License-Identifier: MIT */
/*
 * Forks at every instruction: one thread runs an operation one instruction at a time (the
 * processor's trap flag), and after each of them, or each so many, the calling thread forks and
 * lets the child check what it finds. What a model would explore is run here as it was compiled:
 * see pools/engine/base/undo.h.
 *
 * FORK_STEP_EVERY=1 forks at each instruction; the default of a test leaves most out.
 */
#ifndef PS_TESTS_FORK_STEP_H
#define PS_TESTS_FORK_STEP_H

#include "tests/slowness.h"
#include "tests/unit/trap_flag.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

static sem_t asked;    /* a fork is due, or the operation is over */
static sem_t answered; /* the fork has been made and checked */
static bool is_over;   /* written before the last post of asked */
static uint64_t steps;
static uint64_t step_every;
static bool is_prelude;       /* set by an operation while it prepares: no fork is due */
static void (*stepped)(void); /* the operation */
static pthread_mutex_t ready = PTHREAD_MUTEX_INITIALIZER;

static void wait_for(sem_t *event) {
    while (sem_wait(event) != 0) { /* interrupted */
    }
}

static void step_done(int number) {
    (void)number;
    steps++;
    if (!is_prelude && steps % step_every == 0) {
        sem_post(&asked);
        wait_for(&answered);
    }
}

static void *run_stepped(void *unused) {
    (void)unused;
    pthread_mutex_lock(&ready); /* set-up of the operation is over */
    pthread_mutex_unlock(&ready);
    set_trap_flag(true);
    stepped();
    set_trap_flag(false);
    is_over = true;
    sem_post(&asked);
    return NULL;
}

static void no_operation(void) {}

/* False under an emulator that does not implement the flag, as valgrind's. */
static bool has_trap_flag(void) {
    step_every = UINT64_MAX;
    steps = 0;
    set_trap_flag(true);
    no_operation();
    set_trap_flag(false);
    bool is_stepped = steps != 0;
    steps = 0;
    return is_stepped;
}

static void (*check_child)(void);

static void fork_and_check(uint64_t step) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        slowness_alarm(20);
        unit_failures = 0;
        check_child();
        _exit(unit_failures == 0 ? 0 : 1);
    }
    int status = 1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        unit_fail(__FILE__, __LINE__, "the child of step %ju ended with status 0x%x",
                  (uintmax_t)step, (unsigned)status);
    }
}

/*
 * set_up (or NULL) runs in the calling thread, operation in another, check in each child and in the
 * end here. every: by default the distance of two forks, a prime: no loop of the code has that
 * length.
 */
static void fork_at_each_step(void (*set_up)(void), void (*operation)(void), void (*check)(void),
                              uint64_t every) {
    struct sigaction action = {.sa_handler = step_done};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    if (!CAN_STEP || !has_trap_flag()) {
        UNIT_SKIP("stepping needs the processor's trap flag, and no sanitizer");
    }
    const char *wanted = getenv("FORK_STEP_EVERY");
    /* A checked build has three to five times as many instructions: about as many forks as in
     * others. */
    step_every = wanted != NULL ? strtoull(wanted, NULL, 10) : every * (PS_CHECKED ? 5 : 1);
    REQUIRE(step_every != 0);
    REQUIRE(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    is_over = false;
    stepped = operation;
    check_child = check;
    pthread_mutex_lock(&ready);
#ifdef PS_TESTS_UNIT_ANNOUNCED_H /* a test of the engine */
    pthread_t thread = announced_create(run_stepped, NULL);
#else
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run_stepped, NULL) == 0);
#endif
    if (set_up != NULL) {
        set_up();
    }
    pthread_mutex_unlock(&ready);
    uint64_t forks = 0;
    for (wait_for(&asked); !is_over; wait_for(&asked)) {
        fork_and_check(steps);
        forks++;
        sem_post(&answered);
    }
    pthread_join(thread, NULL);
    CHECK_CMP(forks, >=, 5);
    check_child(); /* the parent has noticed nothing */
    printf("%ju instructions, %ju forks\n", (uintmax_t)steps, (uintmax_t)forks);
}

#endif
