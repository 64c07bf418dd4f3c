/* SPDX-License-Identifier: MIT */
/*
 * gperftools' calls with wrong properties, sizes and pointers.
 */
#include "wrong.h"

bool MallocExtension_GetNumericProperty(const char *, size_t *),
    MallocExtension_SetNumericProperty(const char *, size_t), MallocExtension_VerifyAllMemory(void),
    MallocExtension_VerifyNewMemory(const void *), MallocExtension_VerifyMallocMemory(const void *),
    MallocExtension_VerifyArrayNewMemory(const void *);
void MallocExtension_GetStats(char *, int), MallocExtension_ReleaseToSystem(size_t),
    MallocExtension_ReleaseFreeMemory(void), MallocExtension_SetMemoryReleaseRate(double),
    MallocExtension_MarkThreadIdle(void), MallocExtension_MarkThreadBusy(void);
double MallocExtension_GetMemoryReleaseRate(void);
size_t MallocExtension_GetEstimatedAllocatedSize(size_t),
    MallocExtension_GetAllocatedSize(const void *), MallocExtension_GetThreadCacheSize(void);
int MallocExtension_GetOwnership(const void *);
int MallocExtension_MallocMemoryStats(int *, size_t *, int[64]);
void *tc_malloc(size_t), *tc_calloc(size_t, size_t), *tc_realloc(void *, size_t),
    *tc_memalign(size_t, size_t), *tc_valloc(size_t), *tc_pvalloc(size_t),
    *tc_new_nothrow(size_t, const void *), *tc_malloc_skip_new_handler(size_t);
void tc_free(void *), tc_free_sized(void *, size_t), tc_cfree(void *), tc_delete(void *),
    tc_delete_sized(void *, size_t);
int tc_posix_memalign(void **, size_t, size_t), tc_set_new_mode(int), tc_mallopt(int, int),
    tc_query_new_mode(void);
size_t tc_malloc_size(void *), tc_nallocx(size_t, int);
const char *tc_version(int *, int *, const char **);

CASE(get_null) {
    say("%d", MallocExtension_GetNumericProperty("generic.current_allocated_bytes", 0));
}

CASE(get_name_null) {
    size_t v;
    say("%d", MallocExtension_GetNumericProperty(0, &v));
}

CASE(get_unknown) {
    size_t v = 5;
    say("%d", MallocExtension_GetNumericProperty("no.such", &v));
    say(" %zu", v);
}

CASE(get_empty) {
    size_t v = 5;
    say("%d", MallocExtension_GetNumericProperty("", &v));
    say(" %zu", v);
}

CASE(get_prefix) {
    size_t v = 5;
    say("%d", MallocExtension_GetNumericProperty("generic.heap", &v));
    say(" %d", MallocExtension_GetNumericProperty("generic.heap_size ", &v));
    say(" %d", MallocExtension_GetNumericProperty("Generic.heap_size", &v));
}

CASE(set_ro) { say("%d", MallocExtension_SetNumericProperty("generic.heap_size", 5)); }

CASE(set_unknown) { say("%d", MallocExtension_SetNumericProperty("x", 5)); }

CASE(set_max) {
    say("%d",
        MallocExtension_SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", SIZE_MAX));
    size_t v;
    MallocExtension_GetNumericProperty("tcmalloc.max_total_thread_cache_bytes", &v);
    say(" %d", v > 0);
}

CASE(set_heap_limit) {
    say("%d", MallocExtension_SetNumericProperty("tcmalloc.heap_limit_mb", 100));
}

CASE(set_agg) {
    say("%d", MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 1));
    size_t v = 9;
    MallocExtension_GetNumericProperty("tcmalloc.aggressive_memory_decommit", &v);
    say(" %zu", v);
}

CASE(stats_0) {
    char b[4] = {9, 9, 9, 9};
    MallocExtension_GetStats(b, 0);
    say("%d", b[0]);
}

CASE(stats_1) {
    char b[4] = {9, 9, 9, 9};
    MallocExtension_GetStats(b, 1);
    say("%d", b[0]);
    say(" %d", b[1]);
}

CASE(stats_neg) {
    char b[4] = {9, 9, 9, 9};
    MallocExtension_GetStats(b, -1);
    say("%d", b[0]);
}

CASE(stats_10) {
    char b[20];
    memset(b, 9, 20);
    MallocExtension_GetStats(b, 10);
    say("%zu", strlen(b));
    say(" %d", b[10]);
}

CASE(release) {
    MallocExtension_ReleaseToSystem(0);
    MallocExtension_ReleaseToSystem(SIZE_MAX);
    say("ok");
}

CASE(alloc_null) { say("%zu", MallocExtension_GetAllocatedSize(0)); }

CASE(own_null) { say("%d", MallocExtension_GetOwnership(0)); }

CASE(own_stack) {
    int x = 0;
    say("%d", MallocExtension_GetOwnership(&x));
}

CASE(own_live) {
    void *p = malloc(10);
    say("%d", MallocExtension_GetOwnership(p));
}

CASE(est) {
    say("%d", MallocExtension_GetEstimatedAllocatedSize(0) > 0);
    say(" %d", MallocExtension_GetEstimatedAllocatedSize(SIZE_MAX) > 0);
}

CASE(verify_null) { say("%d", MallocExtension_VerifyNewMemory(0)); }

CASE(verify_live) {
    say("%d", MallocExtension_VerifyMallocMemory(malloc(10)));
    say(" %d", MallocExtension_VerifyAllMemory());
}

CASE(histogram) {
    int b;
    size_t t;
    int h[64];
    say("%d", MallocExtension_MallocMemoryStats(&b, &t, h));
}

CASE(idle) {
    MallocExtension_MarkThreadIdle();
    MallocExtension_MarkThreadBusy();
    MallocExtension_MarkThreadBusy();
    void *p = malloc(10);
    say("%d", p != 0);
}

CASE(free_null) {
    tc_free(0);
    tc_free_sized(0, 5);
    tc_cfree(0);
    tc_delete(0);
    tc_delete_sized(0, 7);
    say("ok");
}

CASE(size_null) { say("%zu", tc_malloc_size(0)); }

CASE(malloc_huge) {
    errno = 0;
    say("%d", tc_malloc(SIZE_MAX) != 0);
    say(" %d", errno);
    say(" %d", tc_calloc(SIZE_MAX, 3) != 0);
}

CASE(nothrow_huge) {
    say("%d", tc_new_nothrow(SIZE_MAX, "") != 0);
    say(" %d", tc_malloc_skip_new_handler(SIZE_MAX) != 0);
}

CASE(realloc_0) {
    say("%d", tc_realloc(tc_malloc(10), 0) != 0);
    say(" %d", tc_realloc(0, 0) != 0);
}

CASE(memalign3) {
    errno = 0;
    say("%d", tc_memalign(3, 10) != 0);
    say(" %d", errno);
}

CASE(memalign0) { say("%d", tc_memalign(0, 10) != 0); }

CASE(pm) {
    void *p = (void *)5;
    say("%d", tc_posix_memalign(&p, 3, 10));
    say(" %d", tc_posix_memalign(&p, 4, 10));
    say(" %d", tc_posix_memalign(&p, 0, 10));
    say(" %d", p == (void *)5);
}

CASE(pm_huge) {
    void *p;
    say("%d", tc_posix_memalign(&p, 16, SIZE_MAX));
}

CASE(pvalloc) {
    say("%d", tc_pvalloc(0) != 0);
    say(" %d", tc_pvalloc(SIZE_MAX) != 0);
    say(" %d", tc_valloc(SIZE_MAX) != 0);
}

CASE(sized_wrong) {
    tc_free_sized(tc_malloc(100), 99);
    say("ok");
}

CASE(delete_sized_100) {
    tc_delete_sized(tc_malloc(100), 100);
    say("ok");
}

CASE(new_mode) {
    say("%d", tc_set_new_mode(5));
    say(" %d", tc_set_new_mode(0));
}

CASE(mallopt) { say("%d", tc_mallopt(-77, 3)); }

CASE(nallocx) {
    say("%d", tc_nallocx(0, 0) != 0);
    say(" %d", tc_nallocx(SIZE_MAX, 0) == 0);
    say(" %d", tc_nallocx(10, 63) == 0);
}

CASE(version_null) { say("%d", tc_version(0, 0, 0) != 0); }
