/* SPDX-License-Identifier: MIT */
/*
 * Functions of gperftools' class MallocExtension that fill objects of C++: cxx_tcmalloc_sample.c,
 * for the class in cxx_tcmalloc.c. `this` is the class's object, which they do not use. Any thread;
 * outside of the engine. They throw bad_alloc when memory is exhausted.
 */
#ifndef PS_SHIM_CXX_TCMALLOC_H
#define PS_SHIM_CXX_TCMALLOC_H

struct ps_cxx_extension;
struct ps_cxx_string; /* std::string: cxx.h */

/* A std::vector of trivial elements, of libstdc++ and libc++. */
struct ps_cxx_vector {
    char *begin;
    char *end;
    char *limit; /* of the memory */
};

/* The live memory of the heap profile, by stack: for each the number of blocks, their bytes, the
 * number of sites, the sites; then a 0. Sums are estimates of all memory, so that the period is 1;
 * 0: there is no profile. Memory of operator new[], the caller's. */
void **ps_cxx_tcmalloc_stacks(struct ps_cxx_extension *this, int *period);

/* Appends the same as pprof's text, and the mappings of the process. Nothing where the loader knows
 * no std::string::append. */
void ps_cxx_tcmalloc_sample(struct ps_cxx_extension *this, struct ps_cxx_string *string);

/* Appends that growth of the heap is not recorded. */
void ps_cxx_tcmalloc_growth(struct ps_cxx_extension *this, struct ps_cxx_string *string);

/* Replaces the elements, MallocExtension::FreeListInfo, by those of this heap. */
void ps_cxx_tcmalloc_lists(struct ps_cxx_extension *this, struct ps_cxx_vector *lists);

#endif
