/* SPDX-License-Identifier: MIT */
/*
 * See vfork.h. Calls libc's functions of the same names, or those of a library preloaded after this
 * one, and preserves errno. No locks.
 */
#include "shim/vfork.h"

#include "shim/entry.h"
#include "shim/loader.h"

#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

#define IS_LIKE_VFORK (CLONE_VM | CLONE_VFORK)

typedef int vfork_function(void);
typedef int routine_function(void *argument);
typedef int clone_function(routine_function *routine, void *stack, int flags, void *argument, ...);

static vfork_function *x_vfork;
static clone_function *x_clone;

/* relaxed, in both: each thread finds the same. */

static vfork_function *find_vfork(void) {
    vfork_function *function = ps_load_relaxed(&x_vfork);
    if (function == NULL) {
        function = (vfork_function *)ps_loader_next("vfork");
        ps_store_relaxed(&x_vfork, function);
    }
    return function;
}

static clone_function *find_clone(void) {
    clone_function *function = ps_load_relaxed(&x_clone);
    if (function == NULL) {
        function = (clone_function *)ps_loader_next("clone");
        ps_store_relaxed(&x_clone, function);
    }
    return function;
}

/* ---- vfork ---- */

struct ps_vfork_way ps_vfork_begin(void) {
    struct ps_vfork_way way = {.area = ps_rseq_area(), .elsewhere = NULL};
    if (!ps_rseq_is_on()) {
        way.elsewhere = find_vfork();
    }
    return way;
}

int ps_vfork_failed(int error) {
    errno = error;
    return -1;
}

PS_VFORK_DEFINE(vfork, __vfork, ps_vfork_begin, ps_vfork_failed)

/* ---- clone ---- */

struct start {
    struct ps_rseq_area *area;
    routine_function *routine;
    void *argument;
};

static int run_child(void *argument) {
    const struct start *start = argument;
    ps_rseq_suspend(start->area);
    return start->routine(start->argument);
}

PS_RSEQ_EXPORT int clone(routine_function *routine, void *stack, int flags, void *argument, ...) {
    va_list rest; /* reads three, as libc's does, whether or not the flags require them */
    va_start(rest, argument);
    pid_t *parent_id = va_arg(rest, pid_t *);
    void *words = va_arg(rest, void *);
    pid_t *child_id = va_arg(rest, pid_t *);
    va_end(rest);
    clone_function *next = find_clone();
    if (next == NULL) {
        return ps_vfork_failed(ENOSYS);
    }
    struct start start = {.area = ps_rseq_area(), .routine = routine, .argument = argument};
    /* With CLONE_SETTLS it does not have its parent's area. */
    bool shares_area = (flags & (IS_LIKE_VFORK | CLONE_SETTLS)) == IS_LIKE_VFORK;
    if (!shares_area || routine == NULL || start.area == NULL) {
        return next(routine, stack, flags, argument, parent_id, words, child_id);
    }
    int child = next(run_child, stack, flags, &start, parent_id, words, child_id);
    ps_rseq_resume(start.area);
    return child;
}

PS_RSEQ_EXPORT_ALIAS(__clone, clone)

/* ---- start ---- */

/* Not at the first call: in a child of fork the loader's lock may belong to a thread that does not
 * exist there. */
__attribute__((constructor(102))) PS_AT_START static void library_loaded(void) {
    if (PS_HAS_RSEQ) {
        (void)find_clone();
    }
    if (PS_HAS_RSEQ && !ps_rseq_is_on()) {
        (void)find_vfork();
    }
}
