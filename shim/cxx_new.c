/* SPDX-License-Identifier: MIT */
/*
 * C++ operator new and delete, all forms, under their mangled names, in C: the library links no
 * C++ run-time. Where memory runs out, C++ asks for the new_handler and for bad_alloc, which live
 * in the program's run-time; so the failing call is passed on to the run-time's own operator new,
 * which calls our malloc, runs the handler and throws as its program expects. That also serves
 * programs whose run-time was loaded by dlopen out of the global scope: it is then found from the
 * caller's own library.
 */
#include "shim/entry.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "pools/os/os.h"

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
    abort();
}

/* The next definition of an operator new behind this library, as seen from the caller. */
PS_COLD static void *next_operator(const char *name, void *caller) {
    void *function = dlsym(RTLD_NEXT, name);
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

PS_COLD static void *fail_new(size_t size, void *caller) {
    new_function *next = (new_function *)next_operator("_Znwm", caller);
    if (next == NULL) {
        die();
    }
    return next(size);
}

PS_COLD static void *fail_new_nothrow(size_t size, const struct nothrow *tag, void *caller) {
    new_nothrow_function *next =
        (new_nothrow_function *)next_operator("_ZnwmRKSt9nothrow_t", caller);
    return next == NULL ? NULL : next(size, tag);
}

PS_COLD static void *fail_new_aligned(size_t size, size_t align, void *caller) {
    new_aligned_function *next =
        (new_aligned_function *)next_operator("_ZnwmSt11align_val_t", caller);
    if (next == NULL) {
        die();
    }
    return next(size, align);
}

PS_COLD static void *fail_new_aligned_nothrow(size_t size, size_t align, const struct nothrow *tag,
                                              void *caller) {
    new_aligned_nothrow_function *next =
        (new_aligned_nothrow_function *)next_operator("_ZnwmSt11align_val_tRKSt9nothrow_t", caller);
    return next == NULL ? NULL : next(size, align, tag);
}

#define CALLER __builtin_return_address(0)

void *_Znwm(size_t size);
PS_HOT_EXPORT void *_Znwm(size_t size) {
    void *block = ps_heap_alloc(size);
    return PS_LIKELY(block != NULL) ? block : fail_new(size, CALLER);
}

void *_ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag);
PS_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag) {
    void *block = ps_heap_alloc(size);
    return PS_LIKELY(block != NULL) ? block : fail_new_nothrow(size, tag, CALLER);
}

void *_ZnwmSt11align_val_t(size_t size, size_t align);
PS_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t align) {
    void *block = ps_block_alloc_aligned(size, align);
    return PS_LIKELY(block != NULL) ? block : fail_new_aligned(size, align, CALLER);
}

void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const struct nothrow *tag);
PS_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align,
                                                   const struct nothrow *tag) {
    void *block = ps_block_alloc_aligned(size, align);
    return PS_LIKELY(block != NULL) ? block : fail_new_aligned_nothrow(size, align, tag, CALLER);
}

PS_EXPORT_ALIAS(_Znam, _Znwm);
PS_EXPORT_ALIAS(_ZnamRKSt9nothrow_t, _ZnwmRKSt9nothrow_t);
PS_EXPORT_ALIAS(_ZnamSt11align_val_t, _ZnwmSt11align_val_t);
PS_EXPORT_ALIAS(_ZnamSt11align_val_tRKSt9nothrow_t, _ZnwmSt11align_val_tRKSt9nothrow_t);

/* Every operator delete is free: size and alignment are known from the address. */
void _ZdlPv(void *block);
PS_HOT_EXPORT void _ZdlPv(void *block) { ps_heap_free(block); }

#define DELETE_ALIAS(name) extern void name(void *) PS_EXPORT __attribute__((alias("_ZdlPv")))

DELETE_ALIAS(_ZdaPv);
DELETE_ALIAS(_ZdlPvm);
DELETE_ALIAS(_ZdaPvm);
DELETE_ALIAS(_ZdlPvRKSt9nothrow_t);
DELETE_ALIAS(_ZdaPvRKSt9nothrow_t);
DELETE_ALIAS(_ZdlPvSt11align_val_t);
DELETE_ALIAS(_ZdaPvSt11align_val_t);
DELETE_ALIAS(_ZdlPvSt11align_val_tRKSt9nothrow_t);
DELETE_ALIAS(_ZdaPvSt11align_val_tRKSt9nothrow_t);
DELETE_ALIAS(_ZdlPvmSt11align_val_t);
DELETE_ALIAS(_ZdaPvmSt11align_val_t);
