/* SPDX-License-Identifier: MIT */
/*
 * Compiler interface: attributes, branch hints, the few builtins that the engine relies on, and
 * assertions. Owns no state. Any file may include it; it includes what depends on the processor.
 */
#ifndef PS_BASE_COMPILER_H
#define PS_BASE_COMPILER_H

#include "pools/engine/arch/arch.h"

#include <stddef.h>
#include <stdint.h>

#ifndef PS_CHECKED
#define PS_CHECKED 0 /* 1: assertions on, set by the debug and sanitizer builds */
#endif

#define PS_LIKELY(x) __builtin_expect(!!(x), 1)
#define PS_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define PS_COLD __attribute__((cold, noinline))
#define PS_NOINLINE __attribute__((noinline))
#if defined(__clang__)
#define PS_NOCLONE /* clang has no such pass */
#else
#define PS_NOCLONE __attribute__((noclone))
#endif
#define PS_INLINE static inline __attribute__((always_inline))
#define PS_ALIGNED(bytes) __attribute__((aligned(bytes)))
/* Required on every extern variable: it is then addressed directly, not through the GOT, which
 * saves a load and works before relocation. */
#define PS_HIDDEN __attribute__((visibility("hidden")))
/* For an alias: copies the attributes of its target, if the compiler can. */
#if defined(__has_attribute) && __has_attribute(copy)
#define PS_COPY(target) __attribute__((copy(target)))
#else
#define PS_COPY(target)
#endif
#define PS_NORETURN __attribute__((noreturn))
/* For functions that read outside variables, at an address that may be wrong. */
#define PS_READS_ANYTHING __attribute__((no_sanitize("address")))
/* For inline functions that read without a lock, while another thread may write. Their callers
 * confirm the value before they act on it. */
#if defined(__SANITIZE_THREAD__)
#define PS_RACING static __attribute__((noinline, no_sanitize("thread")))
#else
#define PS_RACING PS_INLINE
#endif
/* Marks a function that this layer calls and another layer defines. A test asserts that no other
 * function is declared outside of the folder that defines it. */
#define PS_HOOK

/* Thread-local data (initial-exec TLS) on a cache line of its own, where ld.so allows it. In a
 * model whose threads write to each other's data it is an array element, selected by a macro of
 * that name. */
#if defined(PS_MODEL_THREADS)
#define PS_MODEL_THREAD unsigned explore_thread(void)
PS_MODEL_THREAD;
#define PS_THREAD_LOCAL_LINE(type, name) PS_ALIGNED(PS_CACHE_LINE) type name##_of[PS_MODEL_THREADS]
#define PS_THREAD_LOCAL_INIT(...)                                                                  \
    { __VA_ARGS__ }
#else
#define PS_THREAD_LOCAL_LINE(type, name)                                                           \
    PS_ALIGNED(PS_THREAD_LOCAL_ALIGNMENT)                                                          \
    __thread type name __attribute__((tls_model("initial-exec")))
#define PS_THREAD_LOCAL_INIT(...) __VA_ARGS__
#endif

/* The object that has `member` at `pointer`. */
#define PS_CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define PS_CACHE_LINE 64

/* For zeroed arrays whose pages are rarely touched: the linker places them after all other
 * variables, which then share few pages. The linker sorts by name: see cmake/shim.cmake. */
#define PS_SPARSE __attribute__((section(".bss.sparse")))

/* For functions that run at the start or end of each process, in files whose code is placed after
 * the rest: see cmake/shim.cmake. */
#define PS_AT_START __attribute__((section(".text")))

/*
 * PS_PAGE_BYTES_LIMIT, the largest page size of the processor, which data has that must have a
 * page of its own. ps_thread_pointer, which tells the threads of a process apart. ps_cpu_relax, a
 * hint that this is a spin loop.
 */
#include PS_ARCH_PART(compiler.h)

/* Prevents the compiler from moving memory accesses across. */
#define PS_BARRIER() __asm__ volatile("" ::: "memory")

/* Hides the origin of a value, so that the compiler stores it instead of computing it again. */
#define PS_OPAQUE(value) __asm__("" : "+r"(value))

/* ---- assertions of checked builds ---- */

/* Release builds compile the condition but never evaluate it. A failed check prints one line and
 * aborts through ps_check_failed, which os/fatal.c implements, so that base makes no system call.
 */
PS_HOOK PS_NORETURN void ps_check_failed(const char *text);

#define PS_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (PS_CHECKED && PS_UNLIKELY(!(condition))) {                                             \
            ps_check_failed("poolshim: check failed: " #condition "\n");                           \
        }                                                                                          \
    } while (0)

#endif
