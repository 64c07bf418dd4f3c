/* SPDX-License-Identifier: MIT */
/*
 * See mimalloc.h: mi_new and its relatives, which call the program's new handler, and throw
 * bad_alloc, when memory is exhausted. No locks.
 */
#include "shim/cxx.h"
#include "shim/mimalloc.h"

#define CALLER __builtin_return_address(0)

void *mi_new(size_t size);
void *mi_new_aligned(size_t size, size_t align);
void *mi_new_nothrow(size_t size);
void *mi_new_aligned_nothrow(size_t size, size_t align);
void *mi_new_n(size_t count, size_t size);
void *mi_new_realloc(void *block, size_t size);
void *mi_new_reallocn(void *block, size_t count, size_t size);
void *mi_heap_alloc_new(struct ps_mi_heap *heap, size_t size);
void *mi_heap_alloc_new_n(struct ps_mi_heap *heap, size_t count, size_t size);

static void *make(struct ps_mi_heap *heap, size_t size, size_t align) {
    struct ps_mi_request request = {size, align, 0, false};
    return ps_mi_alloc(heap, &request);
}

/* The bytes of a request that cannot be served: no memory is large enough. */
static size_t product_of(size_t count, size_t size) {
    size_t product;
    return ps_mi_multiply(count, size, &product) ? product : SIZE_MAX;
}

/* After a failure the run-time's operator new serves, from the heap of malloc, or throws. */
PS_EXPORT void *mi_new(size_t size) {
    void *block = make(ps_mi_default(), size, 1);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(size, CALLER);
}

PS_EXPORT void *mi_new_aligned(size_t size, size_t align) {
    void *block = make(ps_mi_default(), size, align);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail_aligned(size, align, CALLER);
}

PS_EXPORT void *mi_new_n(size_t count, size_t size) {
    size_t bytes = product_of(count, size);
    void *block = make(ps_mi_default(), bytes, 1);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(bytes, CALLER);
}

PS_EXPORT void *mi_heap_alloc_new(struct ps_mi_heap *heap, size_t size) {
    void *block = make(heap, size, 1);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(size, CALLER);
}

PS_EXPORT void *mi_heap_alloc_new_n(struct ps_mi_heap *heap, size_t count, size_t size) {
    size_t bytes = product_of(count, size);
    void *block = make(heap, bytes, 1);
    return PS_LIKELY(block != NULL) ? block : ps_cxx_fail(bytes, CALLER);
}

PS_EXPORT void *mi_new_nothrow(size_t size) { return make(ps_mi_default(), size, 1); }

PS_EXPORT void *mi_new_aligned_nothrow(size_t size, size_t align) {
    return make(ps_mi_default(), size, align);
}

static void *resize(void *block, size_t size, void *caller) {
    struct ps_mi_request request = {size, 1, 0, false};
    void *result = ps_mi_resize(ps_mi_default(), block, &request);
    if (PS_LIKELY(result != NULL)) {
        return result;
    }
    void *fresh = ps_cxx_fail(size, caller); /* throws, unless the handler has made room */
    if (block != NULL) {
        __builtin_memcpy(fresh, block, ps_min(ps_mi_usable(block), size));
        ps_heap_free(ps_mi_start_of(block));
    }
    return fresh;
}

PS_EXPORT void *mi_new_realloc(void *block, size_t size) { return resize(block, size, CALLER); }

PS_EXPORT void *mi_new_reallocn(void *block, size_t count, size_t size) {
    return resize(block, product_of(count, size), CALLER);
}
