/* SPDX-License-Identifier: MIT */
/*
 * Functions of glibc's <malloc.h> about the heap, beyond malloc itself, with glibc's types and
 * values, which are its ABI. Other C libraries have none of it, and glibc before 2.33 has no
 * mallinfo2; the shim exports the same names everywhere. Included by shim/introspect.c in place of
 * <malloc.h>; tests/unit/shim/introspect_test.c calls it through glibc's header.
 */
#ifndef PS_SHIM_GLIBC_H
#define PS_SHIM_GLIBC_H

#include <stddef.h>
#include <stdio.h>

/* Parameters of mallopt. */
enum {
    M_MXFAST = 1,
    M_TRIM_THRESHOLD = -1,
    M_TOP_PAD = -2,
    M_MMAP_THRESHOLD = -3,
    M_MMAP_MAX = -4,
    M_CHECK_ACTION = -5,
    M_ARENA_TEST = -7,
    M_ARENA_MAX = -8,
};

/* docs/introspection.md says what the fields mean here. */
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

struct mallinfo2 mallinfo2(void);
struct mallinfo mallinfo(void);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);
int malloc_trim(size_t pad);
int mallopt(int parameter, int value);

#endif
