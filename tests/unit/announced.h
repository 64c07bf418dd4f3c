/* SPDX-License-Identifier: MIT */
/*
 * Threads that are announced to the engine, as those of a program are by the shim
 * (pools/engine/heap/thread.h).
 */
#ifndef PS_TESTS_UNIT_ANNOUNCED_H
#define PS_TESTS_UNIT_ANNOUNCED_H

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdlib.h>

struct announced {
    void *(*routine)(void *);
    void *argument;
};

static void *announced_run(void *argument) {
    struct announced announced = *(struct announced *)argument;
    free(argument);                /* libc's */
    if (ps_engine_has_started()) { /* otherwise this thread may start it */
        ps_thread_begin();
    }
    return announced.routine(announced.argument);
}

static inline pthread_t announced_create(void *(*routine)(void *), void *argument) {
    pthread_t thread;
    struct announced *announced = malloc(sizeof *announced);
    REQUIRE(announced != NULL);
    *announced = (struct announced){routine, argument};
    ps_front_share_own();
    ps_background_thread_created();
    REQUIRE(pthread_create(&thread, NULL, announced_run, announced) == 0);
    return thread;
}

#endif
