/* SPDX-License-Identifier: MIT */
/*
 * Forms of operator new that compilers and libraries call where the allocator has them: with a hint
 * how often the block is accessed (LLVM, from a profile), and with the usable size as a second
 * result (Google's tcmalloc, whose names they are; LLVM knows them). Blocks with a hint below 128
 * are cold: they lie in a partition of their own (lasting.h), so that the pages and cache lines of
 * others have hot blocks only. It is made with the first cold block.
 *
 * Each is built on the standard form by its exported name, so that a program that has replaced that
 * frees its own blocks. Then the size is the requested one, and the hint has no effect. No locks.
 */
#include "shim/cxx.h"
#include "shim/lasting.h"

#define HOT_LEAST 128

struct nothrow; /* std::nothrow_t, an empty object passed by reference */

/* 0: never accessed, 255: often. */
typedef uint8_t hot_cold;

/* Returned in two registers, as a struct of C++ without constructors is. */
struct sized {
    void *block;
    size_t bytes; /* usable, at least the requested ones */
};

static struct ps_partition *x_cold; /* NULL: not made yet */

/* NULL: the standard form is to be called, which also handles exhausted memory. */
static void *alloc_cold(size_t size, size_t align, enum ps_family family) {
    struct ps_partition *partition = ps_load_acquire(&x_cold); /* pairs with ps_lasting_make */
    if (PS_UNLIKELY(partition == NULL)) {
        partition = ps_lasting_make(&x_cold, "cold");
    }
    void *block = partition != NULL ? ps_lasting_alloc_aligned(partition, size, align) : NULL;
    return block != NULL ? ps_cxx_made(block, family) : NULL;
}

static PS_NOINLINE void *cold(size_t size, bool is_array) {
    enum ps_family family = is_array ? PS_FAMILY_NEW_ARRAY : PS_FAMILY_NEW;
    return ps_cxx_is_ours(is_array) ? alloc_cold(size, 1, family) : NULL;
}

static PS_NOINLINE void *cold_aligned(size_t size, size_t align, bool is_array) {
    bool is_ours = ps_is_power_of_two(align) && ps_cxx_is_ours_aligned(is_array);
    return is_ours ? alloc_cold(size, align, PS_FAMILY_NEW_ALIGNED) : NULL;
}

#define UNPACK(...) __VA_ARGS__

/* base(arguments) by the name that has the hint, too. */
#define HOT_COLD(base, parameters, arguments, cold_block)                                          \
    void *base parameters;                                                                         \
    void *base##12__hot_cold_t(UNPACK parameters, hot_cold hint);                                  \
    PS_EXPORT void *base##12__hot_cold_t(UNPACK parameters, hot_cold hint) {                       \
        void *block = hint < HOT_LEAST ? (cold_block) : NULL;                                      \
        return block != NULL ? block : base arguments;                                             \
    }

#define PLAIN (size_t size)
#define NOTHROW (size_t size, const struct nothrow *tag)
#define ALIGNED (size_t size, size_t align)
#define ALIGNED_NOTHROW (size_t size, size_t align, const struct nothrow *tag)

HOT_COLD(_Znwm, PLAIN, (size), cold(size, false))
HOT_COLD(_Znam, PLAIN, (size), cold(size, true))
HOT_COLD(_ZnwmRKSt9nothrow_t, NOTHROW, (size, tag), cold(size, false))
HOT_COLD(_ZnamRKSt9nothrow_t, NOTHROW, (size, tag), cold(size, true))
HOT_COLD(_ZnwmSt11align_val_t, ALIGNED, (size, align), cold_aligned(size, align, false))
HOT_COLD(_ZnamSt11align_val_t, ALIGNED, (size, align), cold_aligned(size, align, true))
HOT_COLD(_ZnwmSt11align_val_tRKSt9nothrow_t, ALIGNED_NOTHROW, (size, align, tag),
         cold_aligned(size, align, false))
HOT_COLD(_ZnamSt11align_val_tRKSt9nothrow_t, ALIGNED_NOTHROW, (size, align, tag),
         cold_aligned(size, align, true))

/* ---- with the usable size ---- */

static struct sized sized_of(void *block, size_t size, bool is_aligned) {
    bool is_ours = is_aligned ? ps_cxx_is_ours_aligned(false) : ps_cxx_is_ours(false);
    size_t bytes = is_ours ? ps_block_usable(block) : size;
    return (struct sized){block, block != NULL ? bytes : 0};
}

/* base(arguments) and the usable size of the block. */
#define SIZED(name, base, is_aligned, parameters, arguments)                                       \
    struct sized name parameters;                                                                  \
    PS_EXPORT struct sized name parameters {                                                       \
        return sized_of(base arguments, size, is_aligned);                                         \
    }

/* The same where a hint follows the parameters. */
#define SIZED_HOT_COLD(name, base, is_aligned, parameters, arguments)                              \
    struct sized name(UNPACK parameters, hot_cold hint);                                           \
    PS_EXPORT struct sized name(UNPACK parameters, hot_cold hint) {                                \
        void *block = hint < HOT_LEAST ? COLD_##is_aligned : NULL;                                 \
        return sized_of(block != NULL ? block : base arguments, size, is_aligned);                 \
    }
#define COLD_false cold(size, false)
#define COLD_true cold_aligned(size, align, false)

static const struct nothrow *const nothrow_tag = (const struct nothrow *)"";

SIZED(__size_returning_new, _Znwm, false, PLAIN, (size))
SIZED(__size_returning_new_aligned, _ZnwmSt11align_val_t, true, ALIGNED, (size, align))
SIZED_HOT_COLD(__size_returning_new_hot_cold, _Znwm, false, PLAIN, (size))
SIZED_HOT_COLD(__size_returning_new_aligned_hot_cold, _ZnwmSt11align_val_t, true, ALIGNED,
               (size, align))
PS_EXPORT_ALIAS(tcmalloc_size_returning_operator_new, __size_returning_new);
PS_EXPORT_ALIAS(tcmalloc_size_returning_operator_new_aligned, __size_returning_new_aligned);
PS_EXPORT_ALIAS(tcmalloc_size_returning_operator_new_hot_cold, __size_returning_new_hot_cold);
PS_EXPORT_ALIAS(tcmalloc_size_returning_operator_new_aligned_hot_cold,
                __size_returning_new_aligned_hot_cold);

SIZED(tcmalloc_size_returning_operator_new_nothrow, _ZnwmRKSt9nothrow_t, false, PLAIN,
      (size, nothrow_tag))
SIZED(tcmalloc_size_returning_operator_new_aligned_nothrow, _ZnwmSt11align_val_tRKSt9nothrow_t,
      true, ALIGNED, (size, align, nothrow_tag))
SIZED_HOT_COLD(tcmalloc_size_returning_operator_new_hot_cold_nothrow, _ZnwmRKSt9nothrow_t, false,
               PLAIN, (size, nothrow_tag))
SIZED_HOT_COLD(tcmalloc_size_returning_operator_new_aligned_hot_cold_nothrow,
               _ZnwmSt11align_val_tRKSt9nothrow_t, true, ALIGNED, (size, align, nothrow_tag))
