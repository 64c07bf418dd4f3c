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
