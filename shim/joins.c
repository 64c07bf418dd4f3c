/* SPDX-License-Identifier: MIT */
/*
 * See threads.h. No locks. The functions of glibc that musl lacks are declared here: they are found
 * at run time.
 */
#include "shim/threads.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/heap/thread_record.h"
#include "shim/entry.h"

#include <pthread.h>
#include <threads.h>
#include <time.h>

typedef int join(pthread_t thread, void **result);
typedef int timed_join(pthread_t thread, void **result, const struct timespec *until);
typedef int clock_join(pthread_t thread, void **result, clockid_t clock,
                       const struct timespec *until);
typedef int c11_join(thrd_t thread, int *result);
typedef int detach(pthread_t thread);

PS_EXPORT join pthread_tryjoin_np;
PS_EXPORT timed_join pthread_timedjoin_np;
PS_EXPORT clock_join pthread_clockjoin_np;

/* Before libc's function. NULL: the thread has no record, or has ended as usual. */
static struct ps_thread_record *begin(pthread_t thread) {
    return ps_engine_has_started() ? ps_thread_record_join(thread) : NULL;
}

/*
 * After it, with its result, which is returned. A thread that is cancelled in between, or leaves by
 * longjmp, leaves the other one's record as in a join: the heap of that is not taken.
 */
static int end(struct ps_thread_record *record, int result, int success) {
    int saved_errno = errno;
    bool has_ended = result == success;
    if (record != NULL) {
        ps_thread_joined(record, has_ended);
    }
    if (has_ended && ps_background_may_end() && ps_heap_may_catch_up()) {
        ps_background_stop();
        ps_heap_catch_up();
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
    struct ps_thread_record *record = begin(thread);
    return end(record, next(thread, result), 0);
}

PS_EXPORT int pthread_tryjoin_np(pthread_t thread, void **result) {
    static void *x_next;
    join *next = (join *)ps_next_function(&x_next, "pthread_tryjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    struct ps_thread_record *record = begin(thread);
    return end(record, next(thread, result), 0);
}

PS_EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    static void *x_next;
    timed_join *next = (timed_join *)ps_next_function(&x_next, "pthread_timedjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    struct ps_thread_record *record = begin(thread);
    return end(record, next(thread, result, until), 0);
}

PS_EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
                                   const struct timespec *until) {
    static void *x_next;
    clock_join *next = (clock_join *)ps_next_function(&x_next, "pthread_clockjoin_np");
    if (next == NULL) {
        return ENOSYS;
    }
    struct ps_thread_record *record = begin(thread);
    return end(record, next(thread, result, clock, until), 0);
}

PS_EXPORT int thrd_join(thrd_t thread, int *result) {
    static void *x_next;
    c11_join *next = (c11_join *)ps_next_function(&x_next, "thrd_join");
    if (next == NULL) {
        return thrd_error;
    }
    struct ps_thread_record *record = begin(thread);
    return end(record, next(thread, result), thrd_success);
}

PS_EXPORT int pthread_detach(pthread_t thread) {
    static void *x_next;
    detach *next = (detach *)ps_next_function(&x_next, "pthread_detach");
    if (next == NULL) {
        return ENOSYS;
    }
    if (ps_engine_has_started()) {
        ps_thread_record_detach(thread);
    }
    return next(thread);
}
