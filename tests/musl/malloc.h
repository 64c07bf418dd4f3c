/* SPDX-License-Identifier: MIT */
/*
 * <malloc.h> for test programs where libc is not glibc: with glibc's functions about the heap,
 * which the shim has everywhere.
 */
#ifndef PS_TESTS_MUSL_MALLOC_H
#define PS_TESTS_MUSL_MALLOC_H

#include_next <malloc.h>

#include "shim/glibc.h"

void *pvalloc(size_t size);

#endif
