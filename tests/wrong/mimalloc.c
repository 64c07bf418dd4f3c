/* SPDX-License-Identifier: MIT */
/*
 * mimalloc's calls with odd alignments, sizes, heaps and options.
 */
#include "wrong.h"

void *mi_malloc(size_t), *mi_calloc(size_t, size_t), *mi_realloc(void *, size_t),
    *mi_zalloc(size_t), *mi_mallocn(size_t, size_t), *mi_reallocn(void *, size_t, size_t),
    *mi_reallocf(void *, size_t), *mi_recalloc(void *, size_t, size_t),
    *mi_rezalloc(void *, size_t), *mi_expand(void *, size_t);
void *mi_malloc_aligned(size_t, size_t), *mi_malloc_aligned_at(size_t, size_t, size_t),
    *mi_zalloc_aligned(size_t, size_t), *mi_realloc_aligned(void *, size_t, size_t),
    *mi_calloc_aligned(size_t, size_t, size_t),
    *mi_realloc_aligned_at(void *, size_t, size_t, size_t);
void mi_free(void *), mi_free_size(void *, size_t), mi_free_aligned(void *, size_t),
    mi_free_size_aligned(void *, size_t, size_t), mi_cfree(void *);
size_t mi_usable_size(const void *), mi_good_size(size_t), mi_malloc_size(const void *),
    mi_malloc_usable_size(const void *), mi_malloc_good_size(size_t);
char *mi_strdup(const char *), *mi_strndup(const char *, size_t),
    *mi_realpath(const char *, char *);
void *mi_heap_new(void), *mi_heap_malloc(void *, size_t), *mi_heap_get_default(void),
    *mi_heap_get_backing(void), *mi_heap_set_default(void *),
    *mi_heap_realloc(void *, void *, size_t), *mi_heap_malloc_aligned(void *, size_t, size_t),
    *mi_heap_calloc(void *, size_t, size_t);
void mi_heap_delete(void *), mi_heap_destroy(void *), mi_heap_collect(void *, bool),
    mi_collect(bool);
bool mi_is_in_heap_region(const void *), mi_check_owned(const void *),
    mi_heap_check_owned(void *, const void *), mi_heap_contains_block(void *, const void *),
    mi_option_is_enabled(int), mi_is_redirected(void);
long mi_option_get(int), mi_option_get_clamp(int, long, long);
void mi_option_set(int, long), mi_option_enable(int), mi_option_set_enabled(int, bool),
    mi_option_set_default(int, long);
int mi_version(void), mi_reserve_huge_os_pages_interleave(size_t, size_t, size_t),
    mi_reserve_os_memory(size_t, bool, bool), mi_posix_memalign(void **, size_t, size_t);
void *mi_memalign(size_t, size_t), *mi_valloc(size_t), *mi_pvalloc(size_t),
    *mi_aligned_alloc(size_t, size_t), *mi_new(size_t), *mi_new_nothrow(size_t),
    *mi_new_aligned_nothrow(size_t, size_t), *mi_new_n(size_t, size_t),
    *mi_reallocarray(void *, size_t, size_t);
int mi_reallocarr(void *, size_t, size_t);
bool mi_heap_visit_blocks(const void *, bool, void *, void *);
bool mi_manage_os_memory(void *, size_t, bool, bool, bool, int);
void *mi_malloc_small(size_t), *mi_zalloc_small(size_t);
void mi_stats_print(void *),
    mi_process_info(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *);
int mi_dupenv_s(char **, size_t *, const char *);
void *mi_wcsdup(const void *), *mi_mbsdup(const void *);
static bool visit(const void *heap, const void *area, void *block, size_t bytes, void *argument) {
    (void)heap, (void)area, (void)block, (void)bytes;
    return argument == NULL;
}

CASE(align0) { say("%d", mi_malloc_aligned(10, 0) != 0); }

CASE(align3) { say("%d", mi_malloc_aligned(10, 3) != 0); }

CASE(align_at) {
    char *p = mi_malloc_aligned_at(100, 64, 8);
    say("%d", p != 0);
    say(" %d", p && ((uintptr_t)p + 8) % 64 == 0);
    p = mi_malloc_aligned_at(100, 64, 200);
    say(" %d", p != 0 && ((uintptr_t)p + 200) % 64 == 0);
}

CASE(align_big) {
    char *p = mi_malloc_aligned(100, (size_t)1 << 30);
    say("%d", p != 0);
}

CASE(align_big_at) {
    char *p = mi_malloc_aligned_at(100, (size_t)1 << 26, 8);
    say("%d", p != 0);
}

CASE(align_max) { say("%d", mi_malloc_aligned(100, (size_t)1 << 63) != 0); }

CASE(zalign) {
    say("%d", mi_zalloc_aligned(10, 24) != 0);
    say(" %d", mi_calloc_aligned(SIZE_MAX, 2, 16) != 0);
}

CASE(real_align3) {
    void *p = mi_malloc(10);
    void *q = mi_realloc_aligned(p, 20, 3);
    say("%d", q != 0);
}

CASE(real_align0) {
    void *p = mi_malloc(10);
    void *q = mi_realloc_aligned(p, 20, 0);
    say("%d", q != 0);
}

CASE(huge) {
    say("%d", mi_malloc(SIZE_MAX) != 0);
    say(" %d", mi_calloc(SIZE_MAX, 2) != 0);
    say(" %d", mi_malloc(PTRDIFF_MAX) != 0);
}

CASE(zero) {
    void *p = mi_malloc(0);
    say("%d", p != 0);
    mi_free(p);
}

CASE(real0) {
    void *p = mi_realloc(mi_malloc(10), 0);
    say("%d", p != 0);
}

CASE(reallocf_huge) {
    void *p = mi_reallocf(mi_malloc(10), SIZE_MAX);
    say("%d", p != 0);
}

CASE(mallocn) {
    say("%d", mi_mallocn(SIZE_MAX / 2, 3) != 0);
    say(" %d", mi_reallocn(0, SIZE_MAX / 2, 3) != 0);
}

CASE(recalloc) { say("%d", mi_recalloc(0, SIZE_MAX, 3) != 0); }

CASE(expand) {
    void *p = mi_malloc(100);
    say("%d", mi_expand(p, 100) == p);
    say(" %d", mi_expand(p, 100000) != 0);
    say(" %d", mi_expand(0, 10) != 0);
}

CASE(freenull) {
    mi_free(0);
    mi_free_size(0, 10);
    mi_free_aligned(0, 3);
    mi_free_size_aligned(0, 5, 3);
    mi_cfree(0);
    say("ok");
}

CASE(free_size_wrong) {
    mi_free_size(mi_malloc(100), 7);
    say("ok");
}

CASE(free_size_wrong2) {
    mi_free_size(mi_malloc(100), 70000);
    say("ok");
}

CASE(free_aligned_wrong) {
    mi_free_aligned(mi_malloc(100), 4096);
    say("ok");
}

CASE(usable_null) {
    say("%zu", mi_usable_size(0));
    say(" %zu", mi_malloc_usable_size(0));
}

CASE(good) {
    say("%d", mi_good_size(0) > 0);
    say(" %d", mi_good_size(SIZE_MAX) >= 1);
}

CASE(strdup_null) {
    say("%d", mi_strdup(0) != 0);
    say(" %d", mi_strndup(0, 5) != 0);
}

CASE(realpath_null) { say("%d", mi_realpath("/no/such/path", 0) != 0); }

CASE(heap_del_null) {
    mi_heap_delete(0);
    say("a");
    mi_heap_destroy(0);
    say("b");
}

CASE(heap_collect_null) {
    mi_heap_collect(0, true);
    say("ok");
}

CASE(heap_del_default) {
    mi_heap_delete(mi_heap_get_default());
    say("%d", mi_malloc(10) != 0);
}

CASE(heap_destroy_backing) {
    mi_heap_destroy(mi_heap_get_backing());
    say("%d", mi_malloc(10) != 0);
}

CASE(heap_set_null) {
    say("%d", mi_heap_set_default(0) != 0);
    say(" %d", mi_malloc(10) != 0);
}

CASE(heap_destroy_set) {
    void *h = mi_heap_new();
    mi_heap_set_default(h);
    (void)mi_malloc(10);
    mi_heap_destroy(h);
    say("%d", mi_malloc(10) != 0);
}

CASE(heap_delete_live) {
    void *h = mi_heap_new();
    char *p = mi_heap_malloc(h, 10);
    mi_heap_delete(h);
    p[0] = 1;
    mi_free(p);
    say("ok");
}

CASE(heap_owned) {
    void *h = mi_heap_new();
    char *p = mi_heap_malloc(h, 10);
    say("%d", mi_heap_check_owned(h, p));
    say(" %d", mi_heap_contains_block(h, p));
    say(" %d", mi_heap_check_owned(h, 0));
    say(" %d", mi_heap_contains_block(h, 0));
    say(" %d", mi_heap_check_owned(0, p));
}

CASE(heap_align3) {
    void *h = mi_heap_new();
    say("%d", mi_heap_malloc_aligned(h, 10, 3) != 0);
    say(" %d", mi_heap_calloc(h, SIZE_MAX, 2) != 0);
}

CASE(visit_null) { say("%d", mi_heap_visit_blocks(0, true, 0, 0)); }

CASE(visit_default) {
    say("%d", mi_heap_visit_blocks(mi_heap_get_default(), true, (void *)visit, 0));
}

CASE(region) {
    int x;
    say("%d", mi_is_in_heap_region(0));
    say(" %d", mi_is_in_heap_region(&x));
    say(" %d", mi_is_in_heap_region(mi_malloc(10)));
    say(" %d", mi_check_owned(0));
    say(" %d", mi_check_owned(&x));
}

CASE(option_far) {
    say("%ld", mi_option_get(10000));
    say(" %ld", mi_option_get(-1));
}

CASE(option_far_set) {
    mi_option_set(10000, 5);
    mi_option_set(-1, 5);
    mi_option_enable(999);
    say("ok");
}

CASE(option_set) {
    mi_option_set(2, 5);
    say("%ld", mi_option_get(2));
    say(" %d", mi_option_is_enabled(2));
    mi_option_set_default(2, 7);
    say(" %ld", mi_option_get(2));
}

CASE(pm) {
    void *p = (void *)5;
    say("%d", mi_posix_memalign(&p, 3, 10));
    say(" %d", mi_posix_memalign(&p, 4, 10));
    say(" %d", mi_posix_memalign(&p, 0, 10));
    say(" %d", mi_posix_memalign(0, 16, 10));
    say(" %d", p == (void *)5);
}

CASE(pm_huge) {
    void *p;
    say("%d", mi_posix_memalign(&p, 16, SIZE_MAX));
}

CASE(memalign3) {
    say("%d", mi_memalign(3, 10) != 0);
    say(" %d", mi_aligned_alloc(3, 10) != 0);
}

CASE(pvalloc_huge) {
    say("%d", mi_pvalloc(SIZE_MAX) != 0);
    say(" %d", mi_pvalloc(0) != 0);
}

CASE(new_nothrow) {
    say("%d", mi_new_nothrow(SIZE_MAX) != 0);
    say(" %d", mi_new_aligned_nothrow(10, 3) != 0);
}

CASE(reallocarray) { say("%d", mi_reallocarray(mi_malloc(4), SIZE_MAX, 2) != 0); }

CASE(reallocarr) {
    void *p = mi_malloc(4);
    say("%d", mi_reallocarr(&p, SIZE_MAX, 2));
    say(" %d", mi_reallocarr(0, 1, 2));
    say(" %d", mi_reallocarr(&p, 10, 2));
}

CASE(small_far) { say("%d", mi_malloc_small(1024) != 0); }

CASE(process_null) {
    mi_process_info(0, 0, 0, 0, 0, 0, 0, 0);
    say("ok");
}

CASE(stats_null) {
    mi_stats_print(0);
    say("ok");
}

CASE(dupenv) {
    say("%d", mi_dupenv_s(0, 0, 0));
    char *p = (char *)5;
    size_t n;
    say(" %d", mi_dupenv_s(&p, &n, "NOSUCHVAR"));
    say(" %d", p == 0);
}

CASE(wcsdup_null) {
    say("%d", mi_wcsdup(0) != 0);
    say(" %d", mi_mbsdup(0) != 0);
}

CASE(reserve) {
    say("%d", mi_reserve_os_memory(0, false, false));
    say(" %d", mi_reserve_huge_os_pages_interleave(0, 0, 0));
}

CASE(reserve_far) { say("%d", mi_reserve_os_memory(SIZE_MAX, false, false)); }

CASE(manage) { say("%d", mi_manage_os_memory(0, 100, true, false, true, -1)); }
