/* SPDX-License-Identifier: MIT */
/*
 * common.h - common declarations of the pools library's headers. Includes none of them.
 *
 * Conventions of all families, unless a function says otherwise:
 *   - Sizes are in bytes, alignments are powers of two. Blocks are aligned to 16 by default.
 *   - Size 0 gives a unique pointer that may be freed and must not be read or written.
 *   - Releasing NULL does nothing. Releasing preserves errno.
 *   - When memory is exhausted: the pool's oom handler is called, then NULL and errno ENOMEM; the
 *     pool is as it was. A size that overflows counts as exhaustion. A bad argument is NULL and
 *     EINVAL.
 *   - One thread at a time per pool. Different pools are independent of each other.
 *   - Misuse that is detected prints one line, "poolshim: ...", and aborts.
 */
#ifndef POOLSHIM_COMMON_H
#define POOLSHIM_COMMON_H

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "poolshim: the headers need C99 or later: compile with -std=c11, or -std=gnu11"
#endif

#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

/* In C a function and a struct may have one name: ps_pool_stats fills in a struct ps_pool_stats. In
 * C++ the function hides the struct's constructor, and g++ -Wshadow warns. Inline functions have
 * the casts of C, which are other ones in C++. */
#ifdef __cplusplus
#ifdef __clang__
#define PS_IGNORE_CASTS _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")
#else
#define PS_IGNORE_CASTS                                                                            \
    _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")                                         \
        _Pragma("GCC diagnostic ignored \"-Wuseless-cast\"")
#endif
#define PS_BEGIN_DECLS                                                                             \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")                  \
        PS_IGNORE_CASTS extern "C" {
#define PS_END_DECLS                                                                               \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#define PS_NOEXCEPT noexcept
#define PS_CAST(type, value) static_cast<type>(value)
#else
#define PS_BEGIN_DECLS
#define PS_END_DECLS
#define PS_NOEXCEPT
/* The library's own: the cast of a macro, whose place is the program's. */
#define PS_CAST(type, value) ((type)(value))
#endif

/* On names of earlier versions, which the next minor version has no more. */
#define PS_DEPRECATED(text) __attribute__((deprecated(text)))

/* On every exported function. */
#define PS_API __attribute__((visibility("default")))

/* On functions that return fresh memory, and on those that format. */
#define PS_MALLOC __attribute__((malloc, warn_unused_result))
#define PS_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* In front of a function that returns, or stores, memory of its caller's frame of a stack, and is
 * not named t_something: for `poolshim scopes`. GCC has no such attribute, and needs none. */
#ifdef __clang__
#define PS_RETURNS_SCOPED __attribute__((annotate("ps_returns_scoped")))
#else
#define PS_RETURNS_SCOPED
#endif

#define PS_ALIGN_DEFAULT 16

/* The library's own: a true condition, for the compiler. A program's test of a result for NULL then
 * costs nothing where the result comes from an inline path. */
#define PS_KNOWN(condition) ((condition) ? (void)0 : __builtin_unreachable())

/* The library's own: a condition that is nearly always false, so that its code is a branch. Clang
 * before 11 has no builtin for the probability. */
#if defined(__clang__) && __clang_major__ < 11
#define PS_RARELY(condition) __builtin_expect(condition, 0)
#else
#define PS_RARELY(condition) __builtin_expect_with_probability(condition, 0, 1.0)
#endif

#endif
