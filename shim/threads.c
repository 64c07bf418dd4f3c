/* SPDX-License-Identifier: MIT */
/*
 * See threads.h. No locks.
 */
#include "shim/threads.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "shim/config.h"
#include "shim/entry.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

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
 * If another library's malloc comes first (a sanitizer's), there is nothing to release, and its
 * run-time does not expect a thread that it has not seen.
 */
static bool find_whether_in_use(void) {
    Dl_info first;
    Dl_info own;
    return dladdr((void *)malloc, &first) != 0 && dladdr((void *)find_create, &own) != 0 &&
           first.dli_fbase == own.dli_fbase;
}

static bool is_in_use(void) {
    static uint32_t x_answer;                     /* 0: none yet, 1: no, 2: yes */
    uint32_t answer = ps_load_relaxed(&x_answer); /* relaxed, both: each thread finds the same */
    if (answer == 0) {
        answer = find_whether_in_use() ? 2 : 1;
        ps_store_relaxed(&x_answer, answer);
    }
    return answer == 2;
}

static void start(ps_background_create *create) {
    if (is_in_use()) {
        ps_background_start(create, ps_heap_maintain);
    }
}

PS_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                             void *(*routine)(void *), void *restrict argument) {
    ps_background_create *create = find_create();
    if (create == NULL) {
        return EAGAIN;
    }
    int error = create(thread, attributes, routine, argument);
    if (error == 0 && ps_shim_settings()->background != PS_BACKGROUND_NEVER) {
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
