/* SPDX-License-Identifier: MIT */
/*
 * See threads.h. No locks.
 */
#include "shim/threads.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/heap/thread_record.h"
#include "pools/engine/page/node.h"
#include "shim/config.h"
#include "shim/entry.h"
#include "shim/profile.h"
#include "shim/stats.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

#define PROBE_BYTES 100
#define REPORT_MS_MAX 250 /* that the thread sleeps while reports are written every so often */

typedef int c11_create(thrd_t *thread, thrd_start_t routine, void *argument);

static void *x_create;
static void *x_c11_create;

void *ps_next_function(void **x_found, const char *name) {
    /* relaxed, both: each thread finds the same. */
    void *found = ps_load_relaxed(x_found);
    if (found == NULL) {
        int saved_errno = errno;
        found = dlsym(RTLD_NEXT, name);
        ps_store_relaxed(x_found, found);
        errno = saved_errno;
    }
    return found;
}

static ps_background_create *find_create(void) {
    return (ps_background_create *)ps_next_function(&x_create, "pthread_create");
}

/*
 * If another library's malloc comes first (a sanitizer's) there is nothing to release, and its
 * run-time does not expect a thread that it did not create. Told by a block, since the address of
 * malloc may be one in the program (its procedure linkage table).
 */
static bool is_in_use(void) {
    static uint32_t x_is_known;
    if (ps_load_relaxed(&x_is_known) == 0) { /* relaxed, both: each thread finds the same */
        int saved_errno = errno;
        void *(*volatile first)(size_t) = malloc; /* not elided together with the free */
        void *block = first(PROBE_BYTES);
        /* relaxed: a block of this thread, or no one's. */
        uint8_t kind = ps_load_relaxed(&ps_page_map_slot(block)->run.kind);
        free(block);
        errno = saved_errno;
        if (kind == PS_RUN_NONE) {
            return false;
        }
        ps_store_relaxed(&x_is_known, 1u);
    }
    return true;
}

/* The sooner of two times; 0: there is none. */
static uint32_t sooner(uint32_t a_ms, uint32_t b_ms) {
    return a_ms != 0 && b_ms != 0 ? (uint32_t)ps_min(a_ms, b_ms) : a_ms + b_ms;
}

/* The background thread's job. */
static uint32_t maintain(uint64_t now_ms) {
    uint32_t maintain_ms = ps_heap_maintain(now_ms);
    uint32_t report_ms = sooner(ps_profile_tick(now_ms), ps_stats_tick(now_ms));
    return sooner(maintain_ms, (uint32_t)ps_min(report_ms, REPORT_MS_MAX));
}

static void start_background(void) {
    ps_background_create *create = find_create();
    if (create != NULL && ps_shim_settings()->background != PS_BACKGROUND_NEVER) {
        ps_background_start(create, maintain);
    }
}

/* The start routine of a program's thread. */
static void *run_thread(void *argument) {
    struct ps_thread_record *record = argument;
    void *(*routine)(void *) = (void *(*)(void *))record->routine;
    void *routine_argument = record->argument;
    ps_thread_begin(record);
    return routine(routine_argument);
}

/* That of a thread of ISO C. */
static int run_c11_thread(void *argument) {
    struct ps_thread_record *record = argument;
    thrd_start_t routine = (thrd_start_t)record->routine;
    void *routine_argument = record->argument;
    ps_thread_begin(record);
    return routine(routine_argument);
}

static bool is_detached(const pthread_attr_t *attributes) {
    int state;
    return attributes != NULL && pthread_attr_getdetachstate(attributes, &state) == 0 &&
           state == PTHREAD_CREATE_DETACHED;
}

/* glibc has 0 for the end of the stack where none was set, musl an error. */
static bool is_on_own_stack(const pthread_attr_t *attributes) {
    void *stack;
    size_t bytes;
    return attributes != NULL && pthread_attr_getstack(attributes, &stack, &bytes) == 0 &&
           (uintptr_t)stack + bytes != 0;
}

/* Before a thread is created. NULL: it is created as libc would, and has no record. */
static struct ps_thread_record *announce(const pthread_attr_t *attributes) {
    ps_front_share_own();
    if (!is_in_use()) {
        return NULL;
    }
    ps_node_start();
    struct ps_thread_record *record =
        ps_thread_record_make(is_on_own_stack(attributes), is_detached(attributes));
    if (record != NULL) {
        ps_background_thread_created();
    }
    return record;
}

/* After it, if there is a record. */
static void settle(struct ps_thread_record *record, bool is_created, const pthread_t *thread) {
    if (is_created) {
        ps_thread_record_created(record, thread);
        start_background();
    } else {
        ps_thread_record_dropped(record);
        ps_background_thread_seen();
    }
}

PS_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                             void *(*routine)(void *), void *restrict argument) {
    ps_background_create *create = find_create();
    if (create == NULL) {
        return EAGAIN;
    }
    struct ps_thread_record *record = announce(attributes);
    if (record == NULL) {
        return create(thread, attributes, routine, argument);
    }
    record->routine = (void (*)(void))routine;
    record->argument = argument;
    int error = create(thread, attributes, run_thread, record);
    settle(record, error == 0, thread);
    return error;
}

PS_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument) {
    c11_create *create = (c11_create *)ps_next_function(&x_c11_create, "thrd_create");
    if (create == NULL) {
        return thrd_error;
    }
    struct ps_thread_record *record = announce(NULL);
    if (record == NULL) {
        return create(thread, routine, argument);
    }
    record->routine = (void (*)(void))routine;
    record->argument = argument;
    int result = create(thread, run_c11_thread, record);
    settle(record, result == thrd_success, thread);
    return result;
}

/* A thread that was created neither way counts from its first allocation. */
void ps_thread_begun_by_itself(void) {
    ps_node_start();
    ps_background_thread_created(); /* counts the processors */
    ps_background_thread_seen();
    start_background();
}

void ps_threads_at_start(void) {
    if (ps_shim_settings()->background == PS_BACKGROUND_ALWAYS && is_in_use()) {
        ps_background_keep();
        start_background();
    }
}
