// expect: exit 0
// flags: -fsized-deallocation -faligned-new
/* SPDX-License-Identifier: MIT */
/*
 * operator new with a hint, as LLVM calls it after a profile, and the forms that return the usable
 * size, as Google's libraries call them. libtcmalloc of gperftools has none of these.
 */
#include "claim.h"

#include <initializer_list>
#include <malloc.h>
#include <new>

#define WEAK __attribute__((weak))

enum class __hot_cold_t : unsigned char;

void *operator new(size_t, __hot_cold_t) WEAK;
void *operator new[](size_t, __hot_cold_t) WEAK;
void *operator new(size_t, const std::nothrow_t &, __hot_cold_t) noexcept WEAK;
void *operator new[](size_t, const std::nothrow_t &, __hot_cold_t) noexcept WEAK;
void *operator new(size_t, std::align_val_t, __hot_cold_t) WEAK;
void *operator new[](size_t, std::align_val_t, __hot_cold_t) WEAK;
void *operator new(size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept WEAK;
void *operator new[](size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept WEAK;

struct sized {
    void *block;
    size_t bytes;
};

extern "C" {
sized __size_returning_new(size_t) WEAK;
sized __size_returning_new_aligned(size_t, std::align_val_t) WEAK;
sized __size_returning_new_hot_cold(size_t, __hot_cold_t) WEAK;
sized __size_returning_new_aligned_hot_cold(size_t, std::align_val_t, __hot_cold_t) WEAK;
sized tcmalloc_size_returning_operator_new(size_t) WEAK;
sized tcmalloc_size_returning_operator_new_aligned(size_t, std::align_val_t) WEAK;
sized tcmalloc_size_returning_operator_new_hot_cold(size_t, __hot_cold_t) WEAK;
sized tcmalloc_size_returning_operator_new_aligned_hot_cold(size_t, std::align_val_t,
                                                            __hot_cold_t) WEAK;
sized tcmalloc_size_returning_operator_new_nothrow(size_t) noexcept WEAK;
sized tcmalloc_size_returning_operator_new_aligned_nothrow(size_t, std::align_val_t) noexcept WEAK;
sized tcmalloc_size_returning_operator_new_hot_cold_nothrow(size_t, __hot_cold_t) noexcept WEAK;
sized tcmalloc_size_returning_operator_new_aligned_hot_cold_nothrow(size_t, std::align_val_t,
                                                                    __hot_cold_t) noexcept WEAK;
}

static const std::align_val_t LINE{64};
static const size_t HUGE_SIZE = SIZE_MAX / 4;

static void *filled(void *block, size_t size) {
    CLAIM(block != nullptr);
    claim_fill(block, size, 2);
    return claim_hide(block);
}

static void hints(size_t size, __hot_cold_t hint) {
    ::operator delete(filled(::operator new(size, hint), size));
    ::operator delete[](filled(::operator new[](size, hint), size));
    ::operator delete(filled(::operator new(size, std::nothrow, hint), size));
    ::operator delete[](filled(::operator new[](size, std::nothrow, hint), size));
    ::operator delete(filled(::operator new(size, LINE, hint), size), LINE);
    ::operator delete[](filled(::operator new[](size, LINE, hint), size), LINE);
    ::operator delete(filled(::operator new(size, LINE, std::nothrow, hint), size), LINE);
    ::operator delete[](filled(::operator new[](size, LINE, std::nothrow, hint), size), LINE);
    CLAIM(::operator new(claim_size(HUGE_SIZE), std::nothrow, hint) == nullptr);
    CLAIM(::operator new[](claim_size(HUGE_SIZE), LINE, std::nothrow, hint) == nullptr);
}

static void used(const sized &result, size_t size) {
    CLAIM(result.bytes >= size && result.bytes == malloc_usable_size(result.block));
    ::operator delete(filled(result.block, result.bytes), result.bytes);
}

static void used_aligned(const sized &result, size_t size) {
    CLAIM(result.bytes >= size && result.bytes == malloc_usable_size(result.block));
    CLAIM(claim_is_aligned(result.block, 64));
    ::operator delete(filled(result.block, result.bytes), LINE);
}

static void sizes(size_t size, __hot_cold_t hint) {
    used(__size_returning_new(size), size);
    used(__size_returning_new_hot_cold(size, hint), size);
    used_aligned(__size_returning_new_aligned(size, LINE), size);
    used_aligned(__size_returning_new_aligned_hot_cold(size, LINE, hint), size);
    used(tcmalloc_size_returning_operator_new(size), size);
    used(tcmalloc_size_returning_operator_new_hot_cold(size, hint), size);
    used_aligned(tcmalloc_size_returning_operator_new_aligned(size, LINE), size);
    used_aligned(tcmalloc_size_returning_operator_new_aligned_hot_cold(size, LINE, hint), size);
    used(tcmalloc_size_returning_operator_new_nothrow(size), size);
    used(tcmalloc_size_returning_operator_new_hot_cold_nothrow(size, hint), size);
    used_aligned(tcmalloc_size_returning_operator_new_aligned_nothrow(size, LINE), size);
    used_aligned(tcmalloc_size_returning_operator_new_aligned_hot_cold_nothrow(size, LINE, hint),
                 size);
}

template <typename Call> static bool throws(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main() {
    for (unsigned hint : {0u, 1u, 127u, 128u, 222u, 255u}) {
        for (size_t size : {(size_t)1, (size_t)40, (size_t)3000, (size_t)90000, (size_t)5000000}) {
            hints(size, (__hot_cold_t)hint);
            sizes(size, (__hot_cold_t)hint);
        }
    }
    __hot_cold_t cold{};
    CLAIM(throws([&] { claim_hide(::operator new(claim_size(HUGE_SIZE), cold)); }));
    CLAIM(throws([&] { claim_hide(::operator new[](claim_size(HUGE_SIZE), LINE, cold)); }));
    CLAIM(throws([&] { claim_hide(__size_returning_new(claim_size(HUGE_SIZE)).block); }));
    CLAIM(throws(
        [&] { claim_hide(__size_returning_new_aligned(claim_size(HUGE_SIZE), LINE).block); }));
    sized none = tcmalloc_size_returning_operator_new_nothrow(claim_size(HUGE_SIZE));
    CLAIM(none.block == nullptr && none.bytes == 0);
    return 0;
}
