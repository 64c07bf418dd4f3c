/* SPDX-License-Identifier: MIT */
/*
 * C++ operator new and delete under their mangled names, in C: the library links no C++ run-time.
 * When memory is exhausted, C++ requires the new_handler and bad_alloc, which are in the program's
 * run-time: cxx.h. The nothrow forms are in preloaded/cxx_nothrow.c.
 */
#include "pools/engine/heap/bootstrap.h"
#include "shim/cxx.h"

#include <stdint.h>
#include <stdlib.h>

#define CALLER __builtin_return_address(0)

/* An alignment that is no power of two is refused by the failing path. */
static inline void *alloc_aligned(size_t size, size_t align) {
    return PS_LIKELY(ps_is_power_of_two(align)) ? ps_block_alloc_aligned(size, align) : NULL;
}

/*
 * A program may replace any of the operators and leave the others, which then must be built on its
 * own as the standard says: array forms on single ones, nothrow and sized forms on plain ones. So
 * each of them checks whether the exported name that it is built on still means this library.
 */
static inline bool is_replaced(const void *seen, const void *own) {
    PS_OPAQUE(seen); /* the compiler would take the two names for one address */
    return PS_UNLIKELY(seen != own) && ps_bootstrap_is_over(); /* before relocation it is NULL */
}

#define OWN_NAME(own, name) static __typeof__(name) own __attribute__((alias(#name)))
#define IS_REPLACED(own, name) is_replaced((const void *)(name), (const void *)(own))

void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void *_ZnamSt11align_val_t(size_t size, size_t align);
void _ZdlPv(void *block);
void _ZdaPv(void *block);
void _ZdlPvSt11align_val_t(void *block, size_t align);
void _ZdaPvSt11align_val_t(void *block, size_t align);
OWN_NAME(own_new, _Znwm);
OWN_NAME(own_new_array, _Znam);
OWN_NAME(own_new_aligned, _ZnwmSt11align_val_t);
OWN_NAME(own_new_aligned_array, _ZnamSt11align_val_t);
OWN_NAME(own_delete, _ZdlPv);
OWN_NAME(own_delete_array, _ZdaPv);
OWN_NAME(own_delete_aligned, _ZdlPvSt11align_val_t);
OWN_NAME(own_delete_aligned_array, _ZdaPvSt11align_val_t);

/*
 * While blocks are hardened, checks the family that made a block against the one that frees it, and
 * the size that a delete passes against the block's. Not if the program has replaced an operator:
 * its blocks may then come from malloc, or from inside of a block.
 */
static PS_NOINLINE bool is_all_ours(void) {
    return !IS_REPLACED(own_new, _Znwm) && !IS_REPLACED(own_new_array, _Znam) &&
           !IS_REPLACED(own_new_aligned, _ZnwmSt11align_val_t) &&
           !IS_REPLACED(own_new_aligned_array, _ZnamSt11align_val_t) &&
           !IS_REPLACED(own_delete, _ZdlPv) && !IS_REPLACED(own_delete_array, _ZdaPv) &&
           !IS_REPLACED(own_delete_aligned, _ZdlPvSt11align_val_t) &&
           !IS_REPLACED(own_delete_aligned_array, _ZdaPvSt11align_val_t);
}

static PS_NOINLINE void *note_family(void *block, enum ps_family family) {
    if (block != NULL && is_all_ours()) {
        ps_block_set_family(block, family);
    }
    return block;
}

static PS_NOINLINE void check_family(void *block, enum ps_family family) {
    if (block != NULL && is_all_ours()) {
        ps_block_check_family(block, family);
    }
}

/* A thread that may take the fast path has no families. */
static inline bool has_families(void) {
    return PS_UNLIKELY(ps_front_thread.fast_limit == 0) && ps_hard_is_on();
}

static inline void *made(void *block, enum ps_family family) {
    return has_families() ? note_family(block, family) : block;
}

static inline void free_made(void *block, enum ps_family family) {
    if (has_families()) {
        check_family(block, family);
    }
    ps_heap_free(block);
}

static inline void expect_size(const void *block, size_t size, size_t align) {
    if (PS_UNLIKELY(ps_block_has_promises) && is_all_ours()) {
        ps_expect_size(block, size, align);
    }
}

/* A request that may not take the fast path. The caller is that of the operator. */
PS_INLINE void *new_slow(size_t size, enum ps_family family, void *caller) {
    if (PS_LIKELY(!ps_hard_is_on())) {
        void *block = ps_front_alloc_slow(size);
        return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(size, caller);
    }
    if (PS_UNLIKELY(ps_site_is_on())) {
        ps_site_note((uintptr_t)caller);
    }
    void *block = ps_front_alloc_slow(size);
    return note_family(PS_LIKELY(block != NULL) ? block : ps_cxx_fail(size, caller), family);
}

PS_INLINE void *new_one(size_t size, enum ps_family family, void *caller) {
    if (PS_UNLIKELY(ps_heap_is_slow(size))) {
        return new_slow(size, family, caller);
    }
    void *block = ps_heap_alloc_few(size);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(size, caller);
}

PS_HOT_EXPORT void *_Znwm(size_t size) { return new_one(size, PS_FAMILY_NEW, CALLER); }

PS_EXPORT void *_Znam(size_t size) {
    if (IS_REPLACED(own_new, _Znwm)) {
        return _Znwm(size);
    }
    return new_one(size, PS_FAMILY_NEW_ARRAY, CALLER);
}

PS_INLINE void *new_aligned(size_t size, size_t align, void *caller) {
    if (PS_LIKELY(!ps_hard_is_on())) {
        void *block = alloc_aligned(size, align);
        return PS_LIKELY(block != NULL) ? block : ps_cxx_fail_aligned(size, align, caller);
    }
    if (PS_UNLIKELY(ps_site_is_on()) && ps_is_power_of_two(align)) {
        ps_site_note((uintptr_t)caller);
    }
    void *block = alloc_aligned(size, align);
    block = PS_LIKELY(block != NULL) ? block : ps_cxx_fail_aligned(size, align, caller);
    return note_family(block, PS_FAMILY_NEW_ALIGNED);
}

PS_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t align) {
    return new_aligned(size, align, CALLER);
}

PS_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t align) {
    if (IS_REPLACED(own_new_aligned, _ZnwmSt11align_val_t)) {
        return _ZnwmSt11align_val_t(size, align);
    }
    return new_aligned(size, align, CALLER);
}

/* ---- for the nothrow forms ---- */

bool ps_cxx_is_ours(bool is_array) {
    return !IS_REPLACED(own_new, _Znwm) && !(is_array && IS_REPLACED(own_new_array, _Znam));
}

bool ps_cxx_is_ours_aligned(bool is_array) {
    return !IS_REPLACED(own_new_aligned, _ZnwmSt11align_val_t) &&
           !(is_array && IS_REPLACED(own_new_aligned_array, _ZnamSt11align_val_t));
}

void *ps_cxx_try(size_t size, bool is_array) {
    return ps_cxx_is_ours(is_array) ? ps_heap_alloc(size) : NULL;
}

void *ps_cxx_try_aligned(size_t size, size_t align, bool is_array) {
    return ps_cxx_is_ours_aligned(is_array) ? alloc_aligned(size, align) : NULL;
}

void *ps_cxx_made(void *block, enum ps_family family) { return made(block, family); }

/* ---- delete ---- */

/* Every operator delete is free: size and alignment are known from the address. */
PS_HOT_EXPORT void _ZdlPv(void *block) { free_made(block, PS_FAMILY_NEW); }

void _ZdlPvm(void *block, size_t size);
PS_HOT_EXPORT void _ZdlPvm(void *block, size_t size) {
    if (IS_REPLACED(own_delete, _ZdlPv)) {
        _ZdlPv(block);
        return;
    }
    expect_size(block, size, 1);
    free_made(block, PS_FAMILY_NEW);
}

PS_EXPORT void _ZdaPv(void *block) {
    if (IS_REPLACED(own_delete, _ZdlPv)) {
        _ZdlPv(block);
        return;
    }
    free_made(block, PS_FAMILY_NEW_ARRAY);
}

void _ZdaPvm(void *block, size_t size);
PS_EXPORT void _ZdaPvm(void *block, size_t size) {
    expect_size(block, size, 1);
    IS_REPLACED(own_delete_array, _ZdaPv) ? _ZdaPv(block) : own_delete_array(block);
}

/* name(block, tag) is base(block), of the program or, as `own`, of this file. */
#define DELETE_NOTHROW_FORM(name, own, base)                                                       \
    extern void name(void *block);                                                                 \
    PS_EXPORT void name(void *block) { IS_REPLACED(own, base) ? base(block) : own(block); }

DELETE_NOTHROW_FORM(_ZdlPvRKSt9nothrow_t, own_delete, _ZdlPv)
DELETE_NOTHROW_FORM(_ZdaPvRKSt9nothrow_t, own_delete_array, _ZdaPv)

PS_EXPORT void _ZdlPvSt11align_val_t(void *block, size_t align) {
    (void)align;
    free_made(block, PS_FAMILY_NEW_ALIGNED);
}

/* The same, where `base` takes the alignment, which is `align` among the `parameters`. */
#define DELETE_ALIGNED_FORM(name, own, base, ...)                                                  \
    extern void name(__VA_ARGS__);                                                                 \
    PS_EXPORT void name(__VA_ARGS__) {                                                             \
        IS_REPLACED(own, base) ? base(block, align) : own(block, align);                           \
    }

/* The same with the size of the block as an argument. */
#define DELETE_SIZED_ALIGNED_FORM(name, own, base)                                                 \
    extern void name(void *block, size_t size, size_t align);                                      \
    PS_EXPORT void name(void *block, size_t size, size_t align) {                                  \
        expect_size(block, size, align);                                                           \
        IS_REPLACED(own, base) ? base(block, align) : own(block, align);                           \
    }

DELETE_ALIGNED_FORM(_ZdaPvSt11align_val_t, own_delete_aligned, _ZdlPvSt11align_val_t, void *block,
                    size_t align)
DELETE_ALIGNED_FORM(_ZdlPvSt11align_val_tRKSt9nothrow_t, own_delete_aligned, _ZdlPvSt11align_val_t,
                    void *block, size_t align)
DELETE_ALIGNED_FORM(_ZdaPvSt11align_val_tRKSt9nothrow_t, own_delete_aligned_array,
                    _ZdaPvSt11align_val_t, void *block, size_t align)
DELETE_SIZED_ALIGNED_FORM(_ZdlPvmSt11align_val_t, own_delete_aligned, _ZdlPvSt11align_val_t)
DELETE_SIZED_ALIGNED_FORM(_ZdaPvmSt11align_val_t, own_delete_aligned_array, _ZdaPvSt11align_val_t)

/* ---- gperftools' names: shim/tcmalloc.c ---- */

PS_EXPORT_ALIAS(tc_new, _Znwm);
PS_EXPORT_ALIAS(tc_newarray, _Znam);
PS_EXPORT_ALIAS(tc_new_aligned, _ZnwmSt11align_val_t);
PS_EXPORT_ALIAS(tc_newarray_aligned, _ZnamSt11align_val_t);
PS_EXPORT_ALIAS(tc_delete, _ZdlPv);
PS_EXPORT_ALIAS(tc_delete_sized, _ZdlPvm);
PS_EXPORT_ALIAS(tc_delete_nothrow, _ZdlPvRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_delete_aligned, _ZdlPvSt11align_val_t);
PS_EXPORT_ALIAS(tc_delete_sized_aligned, _ZdlPvmSt11align_val_t);
PS_EXPORT_ALIAS(tc_delete_aligned_nothrow, _ZdlPvSt11align_val_tRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_deletearray, _ZdaPv);
PS_EXPORT_ALIAS(tc_deletearray_sized, _ZdaPvm);
PS_EXPORT_ALIAS(tc_deletearray_nothrow, _ZdaPvRKSt9nothrow_t);
PS_EXPORT_ALIAS(tc_deletearray_aligned, _ZdaPvSt11align_val_t);
PS_EXPORT_ALIAS(tc_deletearray_sized_aligned, _ZdaPvmSt11align_val_t);
PS_EXPORT_ALIAS(tc_deletearray_aligned_nothrow, _ZdaPvSt11align_val_tRKSt9nothrow_t);
