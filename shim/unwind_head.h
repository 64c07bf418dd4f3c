/* SPDX-License-Identifier: MIT */
/*
 * The program headers in the first page of a loaded file. Callers: unwind_object.c and
 * unwind_pages.c. No state, no locks.
 */
#ifndef PS_SHIM_UNWIND_HEAD_H
#define PS_SHIM_UNWIND_HEAD_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_UNWIND_HEAD_BYTES ((size_t)4096) /* of a file: with program headers and build id */

/* The program header of an index, from 0. False: there is none, or not in the first page. */
bool ps_unwind_head_part(uintptr_t head, size_t index, ElfW(Phdr) * out);

#endif
