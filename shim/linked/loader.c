/* SPDX-License-Identifier: MIT */
/*
 * See loader.h: for libpoolshim.a, in static programs and in dynamic ones. A static program has no
 * loader, and a reference to dlsym would link one into it, with a warning of the linker. So
 * functions of libc are called by their second names, and by dlsym where a program has it. All are
 * weak references: missing ones are NULL. No locks.
 *
 * cmake/archive.cmake adds this file when the other files' definitions of these names are local: a
 * name here is libc's.
 */
#include "shim/loader.h"

#include "pools/engine/os/syscall.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <threads.h>

typedef void any_function(void);

static any_function create __attribute__((weakref("__pthread_create")));
static any_function create_2_1 __attribute__((weakref("__pthread_create_2_1"))); /* before 2.34 */
static any_function call_vfork __attribute__((weakref("__vfork")));
static any_function call_clone __attribute__((weakref("__clone")));
static any_function find_object __attribute__((weakref("_dl_find_object")));
static __typeof__(dlsym) find_next __attribute__((weakref("dlsym")));
static __typeof__(dladdr) find_site __attribute__((weakref("dladdr")));

/* Weak references link nothing from libc.a. This function of libc is there in every program, and in
 * a static one it brings pthread_create with it. */
static __attribute__((used)) __typeof__(thrd_create) *const brings_create = thrd_create;

/* As pthread_join, which libc makes of the same parts; it has a second name in some versions only.
 */
static int join(pthread_t thread, void **result) {
    return pthread_timedjoin_np(thread, result, NULL);
}

static any_function *second_of(const char *name) {
    const struct {
        const char *name;
        any_function *function;
    } rows[] = {
        {"pthread_create", create != NULL ? create : create_2_1},
        {"pthread_join", (any_function *)join},
        {"vfork", call_vfork},
        {"clone", call_clone},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].function;
        }
    }
    return NULL;
}

void *ps_loader_next(const char *name) {
    int saved_errno = errno;
    void *function = (void *)second_of(name);
    if (function == NULL && find_next != NULL) {
        function = find_next(RTLD_NEXT, name);
    }
    errno = saved_errno;
    return function;
}

void *ps_loader_find_object(void) { return (void *)find_object; }

bool ps_loader_is_idle(void) { return false; }

bool ps_loader_own_code(uintptr_t *begin, size_t *bytes) {
    /* The linker defines them: the bounds of the section that cmake/link_archive.cmake makes. */
    extern PS_HIDDEN const char __start_poolshim_text[];
    extern PS_HIDDEN const char __stop_poolshim_text[];
    *begin = (uintptr_t)__start_poolshim_text;
    *bytes = (size_t)(__stop_poolshim_text - __start_poolshim_text);
    return true;
}

/* Without a loader all code is the program's, and a dladdr that is there finds nothing. */
static bool name_program(struct ps_loader_site *site, char *buffer, size_t buffer_bytes) {
    long length = ps_syscall6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)buffer,
                              (long)(buffer_bytes - 1), 0, 0);
    if (ps_syscall_failed(length)) {
        return false;
    }
    buffer[length] = '\0';
    *site = (struct ps_loader_site){.file = buffer, .function = NULL};
    return true;
}

bool ps_loader_site_of(uintptr_t address, struct ps_loader_site *site, char *buffer,
                       size_t buffer_bytes) {
    Dl_info info;
    if (find_site == NULL || find_site((void *)address, &info) == 0) {
        return name_program(site, buffer, buffer_bytes);
    }
    *site = (struct ps_loader_site){.file = info.dli_fname, .function = info.dli_sname};
    return true;
}
