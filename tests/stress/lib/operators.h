/* SPDX-License-Identifier: MIT */
/*
 * C++ operator new and delete in all their forms, called from C by their mangled names, as far as
 * the allocator under test has them. Read-only after operators_start.
 */
#ifndef PS_STRESS_OPERATORS_H
#define PS_STRESS_OPERATORS_H

#include "tests/stress/lib/random.h"

#include <stddef.h>

/* A form of operator new is a sum of these. */
enum { OPERATOR_ARRAY = 1, OPERATOR_NOTHROW = 2, OPERATOR_ALIGNED = 4, OPERATOR_FORMS = 8 };

/* Where the library that defines `name` is mapped; NULL when it is undefined. */
void *operators_library_of(const char *name);

/* Once, before any thread. True when `library` defines every form. */
int operators_start(const void *library);

/* The C++ name: "operator new[](nothrow)". */
const char *operators_name(unsigned form);

/* alignment: of the forms with ALIGNED, else unused. */
void *operators_new(unsigned form, size_t size, size_t alignment);

/* Deletes by any operator delete that fits the form: plain, sized or nothrow. */
void operators_delete(unsigned form, void *bytes, size_t size, size_t alignment,
                      struct random_state *random);

#endif
