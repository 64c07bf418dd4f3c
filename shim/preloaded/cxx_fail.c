/* SPDX-License-Identifier: MIT */
/*
 * See cxx.h: operator new after a failure, and its nothrow forms, in libpoolshim.so. A failing call
 * is forwarded to the run-time's own operator new, which calls our malloc, runs the handler and
 * throws as its program expects. This also serves programs whose run-time was loaded by dlopen out
 * of the global scope: it is then found from the caller's own library. No locks but the loader's.
 */
#include "shim/cxx.h"
#include "shim/loader.h"

#include <dlfcn.h>

#include "pools/engine/os/os.h"
#include "pools/engine/os/signals.h"

/* std::nothrow_t is an empty object passed by reference. */
struct nothrow;

typedef void *new_function(size_t size);
typedef void *new_nothrow_function(size_t size, const struct nothrow *tag);
typedef void *new_aligned_function(size_t size, size_t align);
typedef void *new_aligned_nothrow_function(size_t size, size_t align, const struct nothrow *tag);

PS_COLD static PS_NORETURN void die(void) {
    static const char line[] = "poolshim: out of memory in operator new, and no C++ run-time to "
                               "throw bad_alloc\n";
    ps_os_write(2, line, sizeof line - 1);
    ps_signals_abort();
}

/* The next definition of an operator new after this library, in the caller's search order. */
PS_COLD static void *next_operator(const char *name, void *caller) {
    void *function = ps_loader_next(name);
    if (function != NULL) {
        return function;
    }
    Dl_info info;
    if (dladdr(caller, &info) == 0) {
        return NULL;
    }
    void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        return NULL;
    }
    function = dlsym(handle, name);
    dlclose(handle);
    return function;
}

PS_COLD void *ps_cxx_fail(size_t size, void *caller) {
    new_function *next = (new_function *)next_operator("_Znwm", caller);
    if (next == NULL) {
        die();
    }
    return next(size);
}

PS_COLD static void *fail_new_nothrow(const char *name, size_t size, const struct nothrow *tag,
                                      void *caller) {
    new_nothrow_function *next = (new_nothrow_function *)next_operator(name, caller);
    return next == NULL ? NULL : next(size, tag);
}

PS_COLD void *ps_cxx_fail_aligned(size_t size, size_t align, void *caller) {
    new_aligned_function *next =
        (new_aligned_function *)next_operator("_ZnwmSt11align_val_t", caller);
    if (next == NULL) {
        die();
    }
    return next(size, align);
}

PS_COLD static void *fail_new_aligned_nothrow(const char *name, size_t size, size_t align,
                                              const struct nothrow *tag, void *caller) {
    new_aligned_nothrow_function *next =
        (new_aligned_nothrow_function *)next_operator(name, caller);
    return next == NULL ? NULL : next(size, align, tag);
}

/* ---- strings ---- */

ps_cxx_append *ps_cxx_find_append(void) {
    static const char *const names[] = {PS_CXX_APPEND, PS_CXX_APPEND_LIBCXX, PS_CXX_APPEND_OLD};
    void *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && found == NULL; i++) {
        found = ps_loader_next(names[i]);
    }
    return (ps_cxx_append *)found;
}

/* ---- nothrow forms ---- */

#define CALLER __builtin_return_address(0)

/* A replaced operator may throw: the run-time's own nothrow form calls it and catches. */
#define NOTHROW_FORM(name, is_array, family)                                                       \
    extern void *name(size_t size, const struct nothrow *tag);                                     \
    PS_EXPORT void *name(size_t size, const struct nothrow *tag) {                                 \
        PS_NOTE_SITE();                                                                            \
        void *block = ps_cxx_try(size, is_array);                                                  \
        block = PS_LIKELY(block != NULL) ? block : fail_new_nothrow(#name, size, tag, CALLER);     \
        return ps_cxx_made(block, family);                                                         \
    }

#define NOTHROW_ALIGNED_FORM(name, is_array)                                                       \
    extern void *name(size_t size, size_t align, const struct nothrow *tag);                       \
    PS_EXPORT void *name(size_t size, size_t align, const struct nothrow *tag) {                   \
        PS_NOTE_SITE();                                                                            \
        void *block = ps_cxx_try_aligned(size, align, is_array);                                   \
        if (PS_UNLIKELY(block == NULL)) {                                                          \
            block = fail_new_aligned_nothrow(#name, size, align, tag, CALLER);                     \
        }                                                                                          \
        return ps_cxx_made(block, PS_FAMILY_NEW_ALIGNED);                                          \
    }

NOTHROW_FORM(_ZnwmRKSt9nothrow_t, false, PS_FAMILY_NEW)
NOTHROW_FORM(_ZnamRKSt9nothrow_t, true, PS_FAMILY_NEW_ARRAY)
NOTHROW_ALIGNED_FORM(_ZnwmSt11align_val_tRKSt9nothrow_t, false)
NOTHROW_ALIGNED_FORM(_ZnamSt11align_val_tRKSt9nothrow_t, true)

/* gperftools' names: shim/tcmalloc.c */
PS_EXPORT_ALIAS(tc_new_nothrow, _ZnwmRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_newarray_nothrow, _ZnamRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_new_aligned_nothrow, _ZnwmSt11align_val_tRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_newarray_aligned_nothrow, _ZnamSt11align_val_tRKSt9nothrow_t);
