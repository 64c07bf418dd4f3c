/* SPDX-License-Identifier: MIT */
/*
 * Threads that are announced to the engine, as those of a program are by the shim
 * (pools/engine/heap/thread_record.h).
 */
#ifndef PS_TESTS_UNIT_ANNOUNCED_H
#define PS_TESTS_UNIT_ANNOUNCED_H

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/heap/thread_record.h"
#include "tests/unit/unit.h"

#include <pthread.h>

static void *announced_run(void *argument) {
    struct ps_thread_record *record = argument;
    void *(*routine)(void *) = (void *(*)(void *))record->routine;
    argument = record->argument;
    if (ps_engine_has_started()) { /* otherwise this thread may start it */
        ps_thread_begin(record);
    }
    return routine(argument);
}

static inline pthread_t announced_create_on(const pthread_attr_t *attributes,
                                            struct ps_thread_record *record,
                                            void *(*routine)(void *), void *argument) {
    pthread_t thread;
    ps_front_share_own();
    if (record == NULL) { /* memory is exhausted: not announced */
        REQUIRE(pthread_create(&thread, attributes, routine, argument) == 0);
        return thread;
    }
    ps_background_thread_created();
    record->routine = (void (*)(void))routine;
    record->argument = argument;
    REQUIRE(pthread_create(&thread, attributes, announced_run, record) == 0);
    ps_thread_record_created(record, &thread);
    return thread;
}

static inline pthread_t announced_create(void *(*routine)(void *), void *argument) {
    return announced_create_on(NULL, ps_thread_record_make(false, false), routine, argument);
}

#endif
