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
#include "pools/engine/os/mte.h"
#include "pools/engine/page/node.h"
#include "shim/config.h"
#include "shim/entry.h"
#include "shim/flight.h"
#include "shim/loader.h"
#include "shim/profile.h"
#include "shim/stats.h"

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
        found = ps_loader_next(name);
        ps_store_relaxed(x_found, found);
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
        uint8_t kind = ps_load_relaxed(&ps_page_map_slot(ps_mte_strip(block))->run.kind);
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
    uint32_t maintain_ms = ps_maintenance_step(now_ms);
    ps_flight_tick();
    uint32_t report_ms = sooner(ps_profile_tick(now_ms), ps_stats_tick(now_ms));
    return sooner(maintain_ms, (uint32_t)ps_min(report_ms, REPORT_MS_MAX));
}

static void start_background(void) {
    ps_background_create *create = find_create();
    if (create != NULL && ps_shim_settings()->background != PS_BACKGROUND_NEVER) {
        ps_background_start(create, maintain);
    }
}

void ps_threads_keep_background(void) {
    ps_background_keep();
    start_background();
}

/* Begins the calling thread. */
static struct ps_thread_start begin(void *argument) {
    struct ps_thread_start start = *(struct ps_thread_start *)argument;
    ps_thread_start_give(argument);
    ps_thread_begin();
    return start;
}

/* The start routine of a program's thread. */
static void *run_thread(void *argument) {
    struct ps_thread_start start = begin(argument);
    return ((void *(*)(void *))start.routine)(start.argument);
}

/* That of a thread of ISO C. */
static int run_c11_thread(void *argument) {
    struct ps_thread_start start = begin(argument);
    return ((thrd_start_t)start.routine)(start.argument);
}

/* Before a thread is created. NULL: it is created as libc would, and counts when it allocates. */
static struct ps_thread_start *announce(void (*routine)(void), void *argument) {
    ps_front_share_own();
    struct ps_thread_start *start = is_in_use() ? ps_thread_start_take() : NULL;
    if (start != NULL) {
        *start = (struct ps_thread_start){.routine = routine, .argument = argument};
        ps_node_start();
        ps_background_thread_created();
    }
    return start;
}

/* After it. start: not NULL; the thread's, if it was created. */
static void settle(struct ps_thread_start *start, bool is_created) {
    if (is_created) {
        start_background();
    } else {
        ps_thread_start_give(start);
        ps_background_thread_seen();
    }
}

PS_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                             void *(*routine)(void *), void *restrict argument) {
    ps_background_create *create = find_create();
    if (create == NULL) {
        return EAGAIN;
    }
    struct ps_thread_start *start = announce((void (*)(void))routine, argument);
    if (start == NULL) {
        return create(thread, attributes, routine, argument);
    }
    int error = create(thread, attributes, run_thread, start);
    settle(start, error == 0);
    return error;
}

PS_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument) {
    c11_create *create = (c11_create *)ps_next_function(&x_c11_create, "thrd_create");
    if (create == NULL) {
        return thrd_error;
    }
    struct ps_thread_start *start = announce((void (*)(void))routine, argument);
    if (start == NULL) {
        return create(thread, routine, argument);
    }
    int result = create(thread, run_c11_thread, start);
    settle(start, result == thrd_success);
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
        ps_threads_keep_background();
    }
}
