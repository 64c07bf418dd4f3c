/* SPDX-License-Identifier: MIT */
/*
 * gperftools' names tc_*, which programs call that are linked with -ltcmalloc: with these their
 * blocks are this heap's, as those of malloc are. Most are second names of functions of malloc.c,
 * cxx_new.c and introspect.c. Here are those without a counterpart. No locks.
 */
#include "pools/engine/base/atomic.h"
#include "pools/include/poolshim/poolshim.h"
#include "shim/entry.h"

#include <stddef.h>

/* The interface is that of gperftools 2.10. */
#define INTERFACE_MAJOR 2
#define INTERFACE_MINOR 10

const char *tc_version(int *major, int *minor, const char **patch);
int tc_set_new_mode(int flag);
int tc_query_new_mode(void);
void *tc_malloc(size_t size);
size_t tc_nallocx(size_t size, int flags);

PS_EXPORT const char *tc_version(int *major, int *minor, const char **patch) {
    if (major != NULL) {
        *major = INTERFACE_MAJOR;
    }
    if (minor != NULL) {
        *minor = INTERFACE_MINOR;
    }
    if (patch != NULL) {
        *patch = "";
    }
    return "poolshim " POOLSHIM_VERSION ", with the interface of gperftools 2.10";
}

static int x_new_mode; /* 1: tc_malloc calls the new handler when memory is exhausted */

PS_EXPORT int tc_set_new_mode(int flag) {
    return ps_exchange_relaxed(&x_new_mode, flag); /* relaxed: a setting by itself */
}

PS_EXPORT int tc_query_new_mode(void) {
    return ps_load_relaxed(&x_new_mode); /* relaxed: as above */
}

/* The run-time's operator new(size_t, nothrow_t) calls the handler in a loop, and catches what it
 * throws. NULL: the program has no C++ run-time, so that there is no handler. */
PS_COLD static void *ask_handler(size_t size) {
    extern void *new_nothrow(size_t, const char *) __asm__("_ZnwmRKSt9nothrow_t")
        __attribute__((weak));
    static const char tag;                             /* an object of an empty class */
    bool is_asked = ps_load_relaxed(&x_new_mode) != 0; /* relaxed: as above */
    return is_asked && new_nothrow != NULL ? new_nothrow(size, &tag) : NULL;
}

PS_EXPORT void *tc_malloc(size_t size) {
    void *block = ps_heap_alloc(size);
    return PS_LIKELY(block != NULL) ? block : ask_handler(size);
}

/* flags: the logarithm of the alignment, as MALLOCX_LG_ALIGN. */
PS_EXPORT size_t tc_nallocx(size_t size, int flags) {
    return ps_block_length(size, (size_t)1 << (flags & 63));
}
