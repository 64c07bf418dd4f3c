/* SPDX-License-Identifier: MIT */
/*
 * See threads.h. No locks.
 */
#include "shim/threads.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/page/node.h"
#include "shim/config.h"
#include "shim/entry.h"
#include "shim/profile.h"
#include "shim/stats.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define PROBE_BYTES 100
#define REPORT_MS_MAX 250 /* that the thread sleeps while reports are written every so often */

static ps_background_create *x_create;

/* The next definition after ours: libc's, or one of a library preloaded behind us. */
static ps_background_create *find_create(void) {
    /* relaxed, both: each thread finds the same. */
    ps_background_create *create = ps_load_relaxed(&x_create);
    if (create == NULL) {
        int saved_errno = errno;
        create = (ps_background_create *)dlsym(RTLD_NEXT, "pthread_create");
        ps_store_relaxed(&x_create, create);
        errno = saved_errno;
    }
    return create;
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
        uintptr_t owner = ps_load_relaxed(&ps_span_at(block)->x_owner);
        free(block);
        errno = saved_errno;
        if (owner == PS_KEY_NONE) {
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

static void start(ps_background_create *create) {
    if (is_in_use()) {
        ps_background_start(create, maintain);
    }
}

PS_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                             void *(*routine)(void *), void *restrict argument) {
    ps_background_create *create = find_create();
    if (create == NULL) {
        return EAGAIN;
    }
    ps_node_start();
    ps_background_thread_created();
    int error = create(thread, attributes, routine, argument);
    if (error != 0) {
        ps_background_thread_seen();
    } else if (ps_shim_settings()->background != PS_BACKGROUND_NEVER) {
        start(create);
    }
    return error;
}

void ps_threads_at_start(void) {
    ps_background_create *create = find_create();
    if (create != NULL && ps_shim_settings()->background == PS_BACKGROUND_ALWAYS) {
        ps_background_keep();
        start(create);
    }
}
