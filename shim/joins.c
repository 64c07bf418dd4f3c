/* SPDX-License-Identifier: MIT */
/*
 * See threads.h. No locks. The functions of glibc that musl lacks are declared here: they are found
 * at run time.
 */
#include "shim/threads.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "shim/entry.h"

#include <pthread.h>
#include <threads.h>
#include <time.h>

typedef int join(pthread_t thread, void **result);
typedef int timed_join(pthread_t thread, void **result, const struct timespec *until);
typedef int clock_join(pthread_t thread, void **result, clockid_t clock,
                       const struct timespec *until);
typedef int c11_join(thrd_t thread, int *result);

PS_EXPORT join pthread_tryjoin_np;
PS_EXPORT timed_join pthread_timedjoin_np;
PS_EXPORT clock_join pthread_clockjoin_np;

/* After libc's function, with its result, which is returned. */
static int end(int result, int success) {
    int saved_errno = errno;
    if (result == success && ps_background_may_end() && ps_maintenance_may_catch_up()) {
        ps_background_stop();
        ps_maintenance_catch_up();
    }
    errno = saved_errno;
    return result;
}

static join *find_join(void) {
    static void *x_next;
    return (join *)ps_next_function(&x_next, "pthread_join");
}

void ps_background_join(pthread_t ended) {
    join *next = find_join();
    if (next != NULL) {
        (void)next(ended, NULL);
    }
}

PS_EXPORT int pthread_join(pthread_t thread, void **result) {
    join *next = find_join();
    if (next == NULL) {
        return ENOSYS;
    }
    return end(next(thread, result), 0);
}

PS_EXPORT int pthread_tryjoin_np(pthread_t thread, void **result) {
    static void *x_next;
    join *next = (join *)ps_next_function(&x_next, "pthread_tryjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    return end(next(thread, result), 0);
}

PS_EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    static void *x_next;
    timed_join *next = (timed_join *)ps_next_function(&x_next, "pthread_timedjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    return end(next(thread, result, until), 0);
}

PS_EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
                                   const struct timespec *until) {
    static void *x_next;
    clock_join *next = (clock_join *)ps_next_function(&x_next, "pthread_clockjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    return end(next(thread, result, clock, until), 0);
}

PS_EXPORT int thrd_join(thrd_t thread, int *result) {
    static void *x_next;
    c11_join *next = (c11_join *)ps_next_function(&x_next, "thrd_join");
    if (next == NULL) {
        return thrd_error;
    }
    return end(next(thread, result), thrd_success);
}
