/* SPDX-License-Identifier: MIT */
/*
 * What the compiler calls for each access under -fsanitize=thread: the names and arguments are its
 * own. This file is not instrumented itself. Calls memory.c.
 */
#include "checker.h"

#include <string.h>

#define CODE ((uintptr_t)__builtin_return_address(0))

#define PLAIN(bytes)                                                                               \
    void __tsan_read##bytes(void *p);                                                              \
    void __tsan_read##bytes(void *p) { memory_plain((uintptr_t)p, bytes, false, CODE); }           \
    void __tsan_write##bytes(void *p);                                                             \
    void __tsan_write##bytes(void *p) { memory_plain((uintptr_t)p, bytes, true, CODE); }           \
    void __tsan_unaligned_read##bytes(void *p);                                                    \
    void __tsan_unaligned_read##bytes(void *p) { memory_plain((uintptr_t)p, bytes, false, CODE); } \
    void __tsan_unaligned_write##bytes(void *p);                                                   \
    void __tsan_unaligned_write##bytes(void *p) { memory_plain((uintptr_t)p, bytes, true, CODE); }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_read_range(void *p, size_t bytes);
void __tsan_read_range(void *p, size_t bytes) { memory_plain((uintptr_t)p, bytes, false, CODE); }
void __tsan_write_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes) { memory_plain((uintptr_t)p, bytes, true, CODE); }

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) { memory_fence(order); }

/* The compiler's own order: threads are switched at steps, whose order the compiler preserves. */
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

void explore_fence_loads(void) { memory_fence(__ATOMIC_ACQUIRE); }

#define CHANGE(bits, type, name, operation)                                                        \
    type __tsan_atomic##bits##_##name(volatile type *p, type v, int order);                        \
    type __tsan_atomic##bits##_##name(volatile type *p, type v, int order) {                       \
        return (type)memory_change((uintptr_t)p, sizeof *p, operation, v, order, CODE);            \
    }

#define SWAP(bits, type, name, is_weak)                                                            \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *expected, type v,    \
                                                      int order, int failure_order);               \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *expected, type v,    \
                                                      int order, int failure_order) {              \
        uint64_t seen = *expected;                                                                 \
        bool is_done =                                                                             \
            memory_swap((uintptr_t)p, sizeof *p, &seen, v, order, failure_order, is_weak, CODE);   \
        *expected = (type)seen;                                                                    \
        return is_done;                                                                            \
    }

#define ATOMIC(bits, type)                                                                         \
    type __tsan_atomic##bits##_load(const volatile type *p, int order);                            \
    type __tsan_atomic##bits##_load(const volatile type *p, int order) {                           \
        return (type)memory_load((uintptr_t)p, sizeof *p, order, CODE);                            \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order);                         \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order) {                        \
        memory_store((uintptr_t)p, sizeof *p, v, order, CODE);                                     \
    }                                                                                              \
    CHANGE(bits, type, exchange, MEMORY_EXCHANGE)                                                  \
    CHANGE(bits, type, fetch_add, MEMORY_ADD)                                                      \
    CHANGE(bits, type, fetch_sub, MEMORY_SUB)                                                      \
    CHANGE(bits, type, fetch_and, MEMORY_AND)                                                      \
    CHANGE(bits, type, fetch_or, MEMORY_OR)                                                        \
    SWAP(bits, type, strong, false)                                                                \
    SWAP(bits, type, weak, true)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

/* The compiler does not announce what these do; model code gets them for its own by -D. */
void *explore_memset(void *to, int value, size_t bytes);
void *explore_memcpy(void *to, const void *from, size_t bytes);
void *explore_memmove(void *to, const void *from, size_t bytes);

void *explore_memset(void *to, int value, size_t bytes) {
    memory_plain((uintptr_t)to, bytes, true, CODE);
    return memset(to, value, bytes);
}

void *explore_memcpy(void *to, const void *from, size_t bytes) {
    memory_plain((uintptr_t)from, bytes, false, CODE);
    memory_plain((uintptr_t)to, bytes, true, CODE);
    return memcpy(to, from, bytes);
}

void *explore_memmove(void *to, const void *from, size_t bytes) {
    memory_plain((uintptr_t)from, bytes, false, CODE);
    memory_plain((uintptr_t)to, bytes, true, CODE);
    return memmove(to, from, bytes);
}
