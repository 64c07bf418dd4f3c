// expect: exit 0
// flags: -faligned-new
/* SPDX-License-Identifier: MIT */
/*
 * gperftools' names tc_*: their blocks are malloc's and operator new's, and the other way round.
 * tests/shim/test_tcmalloc.py runs it with libtcmalloc, too.
 */
#include "claim.h"

#include <initializer_list>
#include <malloc.h>
#include <new>

#define WEAK __attribute__((weak))

extern "C" {
const char *tc_version(int *, int *, const char **) WEAK;
void *tc_malloc(size_t) WEAK;
void *tc_malloc_skip_new_handler(size_t) WEAK;
void tc_free(void *) WEAK;
void tc_free_sized(void *, size_t) WEAK;
void *tc_realloc(void *, size_t) WEAK;
void *tc_calloc(size_t, size_t) WEAK;
void tc_cfree(void *) WEAK;
void *tc_memalign(size_t, size_t) WEAK;
int tc_posix_memalign(void **, size_t, size_t) WEAK;
void *tc_valloc(size_t) WEAK;
void *tc_pvalloc(size_t) WEAK;
int tc_mallopt(int, int) WEAK;
struct mallinfo tc_mallinfo() WEAK;
size_t tc_malloc_size(void *) WEAK;
size_t tc_nallocx(size_t, int) WEAK;
int tc_set_new_mode(int) WEAK;
int tc_query_new_mode() WEAK;
void *tc_new(size_t) WEAK;
void *tc_new_nothrow(size_t, const std::nothrow_t &) WEAK;
void *tc_newarray(size_t) WEAK;
void *tc_newarray_nothrow(size_t, const std::nothrow_t &) WEAK;
void *tc_new_aligned(size_t, std::align_val_t) WEAK;
void *tc_new_aligned_nothrow(size_t, std::align_val_t, const std::nothrow_t &) WEAK;
void *tc_newarray_aligned(size_t, std::align_val_t) WEAK;
void *tc_newarray_aligned_nothrow(size_t, std::align_val_t, const std::nothrow_t &) WEAK;
void tc_delete(void *) WEAK;
void tc_delete_sized(void *, size_t) WEAK;
void tc_delete_nothrow(void *, const std::nothrow_t &) WEAK;
void tc_deletearray(void *) WEAK;
void tc_deletearray_sized(void *, size_t) WEAK;
void tc_deletearray_nothrow(void *, const std::nothrow_t &) WEAK;
void tc_delete_aligned(void *, std::align_val_t) WEAK;
void tc_delete_sized_aligned(void *, size_t, std::align_val_t) WEAK;
void tc_delete_aligned_nothrow(void *, std::align_val_t, const std::nothrow_t &) WEAK;
void tc_deletearray_aligned(void *, std::align_val_t) WEAK;
void tc_deletearray_sized_aligned(void *, size_t, std::align_val_t) WEAK;
void tc_deletearray_aligned_nothrow(void *, std::align_val_t, const std::nothrow_t &) WEAK;
}

static const size_t HUGE_SIZE = SIZE_MAX / 4;
static const std::align_val_t LINE{64};

static void *filled(void *block, size_t size) {
    CLAIM(block != nullptr && tc_malloc_size(block) >= size);
    CLAIM(tc_malloc_size(block) == malloc_usable_size(block));
    claim_fill(block, size, 1);
    return claim_hide(block);
}

static void *aligned(void *block, size_t align, size_t size) {
    CLAIM(claim_is_aligned(block, align));
    return filled(block, size);
}

static void c_names(size_t size) {
    tc_free(filled(malloc(size), size));
    free(filled(tc_malloc(size), size));
    tc_cfree(filled(tc_malloc_skip_new_handler(size), size));
    void *block = filled(tc_realloc(nullptr, size), size);
    block = claim_hide(tc_realloc(block, 3 * size + 100));
    CLAIM(claim_is_filled(block, size, 1));
    tc_free_sized(block, 3 * size + 100);
    block = tc_calloc(size, 3);
    CLAIM(claim_is_zero(block, 3 * size));
    free(block);
    tc_free(aligned(tc_memalign(256, size), 256, size));
    CLAIM(tc_posix_memalign(&block, 128, size) == 0);
    tc_free(aligned(block, 128, size));
    CLAIM(tc_posix_memalign(&block, 24, size) == EINVAL);
    CLAIM(tc_posix_memalign(&block, 2, size) == EINVAL);
    tc_free(aligned(tc_valloc(size), 4096, size));
    tc_free(aligned(tc_pvalloc(size), 4096, (size + 4095) & ~(size_t)4095));
    CLAIM(tc_nallocx(size, 0) >= size && tc_nallocx(size, 12) >= size);
    tc_free(nullptr);
    CLAIM(tc_malloc_size(nullptr) == 0);
}

/* The sizes that are told to delete are those of new. */
static void cxx_names(size_t size) {
    tc_delete(filled(tc_new(size), size));
    tc_delete_sized(filled(tc_new(size), size), size);
    tc_delete_nothrow(filled(tc_new_nothrow(size, std::nothrow), size), std::nothrow);
    tc_deletearray(filled(tc_newarray(size), size));
    tc_deletearray_sized(filled(tc_newarray(size), size), size);
    tc_deletearray_nothrow(filled(tc_newarray_nothrow(size, std::nothrow), size), std::nothrow);
    tc_delete_aligned(aligned(tc_new_aligned(size, LINE), 64, size), LINE);
    tc_delete_sized_aligned(aligned(tc_new_aligned(size, LINE), 64, size), size, LINE);
    tc_delete_aligned_nothrow(aligned(tc_new_aligned_nothrow(size, LINE, std::nothrow), 64, size),
                              LINE, std::nothrow);
    tc_deletearray_aligned(aligned(tc_newarray_aligned(size, LINE), 64, size), LINE);
    tc_deletearray_sized_aligned(aligned(tc_newarray_aligned(size, LINE), 64, size), size, LINE);
    tc_deletearray_aligned_nothrow(
        aligned(tc_newarray_aligned_nothrow(size, LINE, std::nothrow), 64, size), LINE,
        std::nothrow);
    ::operator delete(filled(tc_new(size), size));
    tc_delete(filled(::operator new(size), size));
}

static int handler_calls;

static void give_up() {
    if (++handler_calls % 3 == 0) {
        throw std::bad_alloc();
    }
}

static bool throws(void *(*make)(size_t)) {
    try {
        claim_hide(make(claim_size(HUGE_SIZE)));
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void no_memory() {
    CLAIM(tc_malloc(claim_size(HUGE_SIZE)) == nullptr && errno == ENOMEM);
    CLAIM(tc_calloc(claim_size(SIZE_MAX / 2), 4) == nullptr);
    CLAIM(tc_memalign(64, claim_size(HUGE_SIZE)) == nullptr);
    CLAIM(tc_new_nothrow(claim_size(HUGE_SIZE), std::nothrow) == nullptr);
    CLAIM(throws(tc_new) && throws(tc_newarray));
    std::set_new_handler(give_up);
    CLAIM(tc_malloc(claim_size(HUGE_SIZE)) == nullptr && handler_calls == 0);
    CLAIM(tc_query_new_mode() == 0 && tc_set_new_mode(1) == 0 && tc_query_new_mode() == 1);
    CLAIM(tc_malloc(claim_size(HUGE_SIZE)) == nullptr && handler_calls == 3);
    CLAIM(tc_malloc_skip_new_handler(claim_size(HUGE_SIZE)) == nullptr && handler_calls == 3);
    CLAIM(tc_set_new_mode(0) == 1);
    CLAIM(throws(tc_new) && handler_calls == 6);
    std::set_new_handler(nullptr);
}

int main() {
    if (tc_malloc == nullptr) {
        claim_skip("no tc_malloc here");
    }
    for (size_t size : {(size_t)1, (size_t)100, (size_t)5000, (size_t)70000, (size_t)3000000}) {
        c_names(size);
        cxx_names(size);
    }
    no_memory();
    int major = 0;
    int minor = 0;
    const char *patch = nullptr;
    CLAIM(tc_version(&major, &minor, &patch) != nullptr && major == 2 && minor > 0);
    CLAIM(patch != nullptr && tc_version(nullptr, nullptr, nullptr)[0] != '\0');
    void *block = claim_hide(tc_malloc(10000));
    CLAIM(tc_mallinfo().uordblks >= 10000);
    CLAIM(tc_mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    tc_free(block);
    return 0;
}
