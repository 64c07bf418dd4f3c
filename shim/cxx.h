/* SPDX-License-Identifier: MIT */
/*
 * Parts of operator new that depend on where the C++ run-time is: beside the shim, found by the
 * loader (preloaded/cxx_fail.c), or in one file with it (linked/cxx_fail.c). No locks.
 */
#ifndef PS_SHIM_CXX_H
#define PS_SHIM_CXX_H

#include "shim/entry.h"

/*
 * After an operator new has found no memory: calls the program's new handler and tries again, or
 * throws bad_alloc. An alignment that is no power of two is refused in the same way. caller: the
 * operator's return address.
 */
PS_HOOK void *ps_cxx_fail(size_t size, void *caller);
PS_HOOK void *ps_cxx_fail_aligned(size_t size, size_t align, void *caller);

/* std::string::append(const char *, size_t). */
struct ps_cxx_string;
typedef void *ps_cxx_append(struct ps_cxx_string *string, const char *data, size_t bytes);

/* That of the program's run-time: of libstdc++, of its older strings, or of libc++. NULL: there is
 * none that can be found. */
PS_HOOK ps_cxx_append *ps_cxx_find_append(void);

/* Their names. */
#define PS_CXX_APPEND "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKcm"
#define PS_CXX_APPEND_OLD "_ZNSs6appendEPKcm"
#define PS_CXX_APPEND_LIBCXX                                                                       \
    "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKcm"

/* ---- nothrow forms, which the run-time has itself where it is linked ---- */

/* Memory for a nothrow form. NULL: there is none, or the program has replaced an operator that the
 * form must call. */
void *ps_cxx_try(size_t size, bool is_array);
void *ps_cxx_try_aligned(size_t size, size_t align, bool is_array);

/* False: the program has replaced an operator new that the array or the single form is built on. */
bool ps_cxx_is_ours(bool is_array);
bool ps_cxx_is_ours_aligned(bool is_array);

/* Notes the family of a block where blocks are hardened. */
void *ps_cxx_made(void *block, enum ps_family family);

#endif
