// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * mimalloc's functions, as its header declares them: results that are the same in libmimalloc, with
 * which tests/shim/test_mimalloc.py runs it, too.
 */
#include "claim.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#define WEAK __attribute__((weak))

typedef struct heap heap;

void *mi_malloc(size_t) WEAK;
void *mi_zalloc(size_t) WEAK;
void *mi_malloc_small(size_t) WEAK;
void *mi_zalloc_small(size_t) WEAK;
void *mi_mallocn(size_t, size_t) WEAK;
void *mi_calloc(size_t, size_t) WEAK;
void *mi_realloc(void *, size_t) WEAK;
void *mi_reallocn(void *, size_t, size_t) WEAK;
void *mi_reallocf(void *, size_t) WEAK;
void *mi_rezalloc(void *, size_t) WEAK;
void *mi_recalloc(void *, size_t, size_t) WEAK;
void *mi_expand(void *, size_t) WEAK;
char *mi_strdup(const char *) WEAK;
char *mi_strndup(const char *, size_t) WEAK;
char *mi_realpath(const char *, char *) WEAK;
void mi_free(void *) WEAK;
void mi_cfree(void *) WEAK;
void mi_free_size(void *, size_t) WEAK;
void mi_free_size_aligned(void *, size_t, size_t) WEAK;
void mi_free_aligned(void *, size_t) WEAK;
size_t mi_usable_size(const void *) WEAK;
size_t mi_good_size(size_t) WEAK;
void *mi_malloc_aligned(size_t, size_t) WEAK;
void *mi_malloc_aligned_at(size_t, size_t, size_t) WEAK;
void *mi_zalloc_aligned(size_t, size_t) WEAK;
void *mi_zalloc_aligned_at(size_t, size_t, size_t) WEAK;
void *mi_calloc_aligned(size_t, size_t, size_t) WEAK;
void *mi_calloc_aligned_at(size_t, size_t, size_t, size_t) WEAK;
void *mi_realloc_aligned(void *, size_t, size_t) WEAK;
void *mi_realloc_aligned_at(void *, size_t, size_t, size_t) WEAK;
void *mi_rezalloc_aligned(void *, size_t, size_t) WEAK;
void *mi_recalloc_aligned(void *, size_t, size_t, size_t) WEAK;
void *mi_recalloc_aligned_at(void *, size_t, size_t, size_t, size_t) WEAK;
int mi_posix_memalign(void **, size_t, size_t) WEAK;
void *mi_memalign(size_t, size_t) WEAK;
void *mi_aligned_alloc(size_t, size_t) WEAK;
void *mi_valloc(size_t) WEAK;
void *mi_pvalloc(size_t) WEAK;
void *mi_reallocarray(void *, size_t, size_t) WEAK;
int mi_reallocarr(void *, size_t, size_t) WEAK;
unsigned short *mi_wcsdup(const unsigned short *) WEAK;
unsigned char *mi_mbsdup(const unsigned char *) WEAK;
int mi_dupenv_s(char **, size_t *, const char *) WEAK;
void *mi_new_nothrow(size_t) WEAK;
void *mi_new_aligned_nothrow(size_t, size_t) WEAK;
heap *mi_heap_new(void) WEAK;
void mi_heap_delete(heap *) WEAK;
void mi_heap_destroy(heap *) WEAK;
heap *mi_heap_set_default(heap *) WEAK;
heap *mi_heap_get_default(void) WEAK;
heap *mi_heap_get_backing(void) WEAK;
void mi_heap_collect(heap *, bool) WEAK;
void *mi_heap_malloc(heap *, size_t) WEAK;
void *mi_heap_zalloc(heap *, size_t) WEAK;
void *mi_heap_calloc(heap *, size_t, size_t) WEAK;
void *mi_heap_mallocn(heap *, size_t, size_t) WEAK;
void *mi_heap_realloc(heap *, void *, size_t) WEAK;
void *mi_heap_rezalloc(heap *, void *, size_t) WEAK;
char *mi_heap_strdup(heap *, const char *) WEAK;
void *mi_heap_malloc_aligned(heap *, size_t, size_t) WEAK;
void *mi_heap_malloc_aligned_at(heap *, size_t, size_t, size_t) WEAK;
bool mi_heap_contains_block(heap *, const void *) WEAK;
bool mi_heap_check_owned(heap *, const void *) WEAK;
bool mi_check_owned(const void *) WEAK;
bool mi_is_in_heap_region(const void *) WEAK;
int mi_version(void) WEAK;
void mi_collect(bool) WEAK;
void mi_register_error(void (*)(int, void *), void *) WEAK;
void mi_register_output(void (*)(const char *, void *), void *) WEAK;
void mi_stats_print(void *) WEAK;
void mi_stats_print_out(void (*)(const char *, void *), void *) WEAK;
void mi_process_info(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *,
                     size_t *) WEAK;
long mi_option_get(int) WEAK;
void mi_option_set(int, long) WEAK;
long mi_option_get_clamp(int, long, long) WEAK;
bool mi_option_is_enabled(int) WEAK;
void mi_option_enable(int) WEAK;
bool mi_manage_os_memory(void *, size_t, bool, bool, bool, int) WEAK;

#define HUGE_SIZE (SIZE_MAX / 4)

static void *filled(void *block, size_t size) {
    CLAIM(block != NULL && mi_usable_size(block) >= size);
    claim_fill(block, size, 3);
    return claim_hide(block);
}

static void *zero(void *block, size_t size) {
    CLAIM(block != NULL && claim_is_zero(block, size));
    return filled(block, size);
}

/* Blocks go to either free, and come from either malloc. */
static void plain_forms(size_t size) {
    mi_free(filled(mi_malloc(size), size));
    free(filled(mi_malloc(size), size));
    mi_free(filled(malloc(size), size));
    mi_free(zero(mi_zalloc(size), size));
    mi_free_size(filled(mi_mallocn(1, size), size), size);
    mi_cfree(zero(mi_calloc(size, 3), 3 * size));
    void *block = filled(mi_realloc(NULL, size), size);
    block = claim_hide(mi_realloc(block, 5 * size));
    CLAIM(claim_is_filled(block, size, 3));
    block = claim_hide(mi_reallocn(block, size, 2));
    CLAIM(claim_is_filled(block, size, 3));
    mi_free(mi_reallocf(block, size));
    block = zero(mi_zalloc(size), size);
    for (size_t bytes = size; bytes < 40 * size; bytes += bytes / 2 + 1) {
        size_t old = mi_usable_size(block);
        memset(block, 1, old);
        size_t more = bytes + bytes / 2 + 1;
        block = claim_hide(mi_rezalloc(block, more));
        CLAIM(more <= old || claim_is_zero((char *)block + old, more - old));
    }
    block = claim_hide(mi_recalloc(block, size, 2));
    CLAIM(mi_expand(block, size) == block && mi_expand(block, HUGE_SIZE) == NULL);
    mi_free(block);
    CLAIM(mi_good_size(size) >= size);
    mi_free(NULL);
    CLAIM(mi_usable_size(NULL) == 0 && mi_expand(NULL, 10) == NULL);
}

static void *at(void *block, size_t align, size_t offset, size_t size) {
    CLAIM((uintptr_t)((char *)block + offset) % align == 0);
    return filled(block, size);
}

static void aligned_forms(size_t size, size_t align) {
    mi_free_aligned(at(mi_malloc_aligned(size, align), align, 0, size), align);
    mi_free_size_aligned(at(mi_zalloc_aligned(size, align), align, 0, size), size, align);
    free(at(mi_memalign(align, size), align, 0, size));
    mi_free(at(mi_aligned_alloc(align, size), align, 0, size));
    mi_free(at(mi_calloc_aligned(size, 2, align), align, 0, size));
    void *block = at(mi_realloc_aligned(NULL, size, align), align, 0, size);
    block = at(mi_realloc_aligned(block, 3 * size, align), align, 0, size);
    block = at(mi_rezalloc_aligned(block, 4 * size, align), align, 0, size);
    mi_free(at(mi_recalloc_aligned(block, size, 5, align), align, 0, size));
    CLAIM(mi_posix_memalign(&block, align, size) == (align % sizeof(void *) == 0 ? 0 : EINVAL));
    if (align % sizeof(void *) == 0) {
        mi_free(at(block, align, 0, size));
    }
}

static void offset_forms(size_t size, size_t align, size_t offset) {
    mi_free(at(mi_malloc_aligned_at(size, align, offset), align, offset, size));
    void *block = mi_zalloc_aligned_at(size, align, offset);
    CLAIM(claim_is_zero(block, mi_usable_size(block)));
    block = at(block, align, offset, size);
    block = claim_hide(mi_realloc_aligned_at(block, 2 * size, align, offset));
    CLAIM(claim_is_filled(block, size, 3));
    block = at(block, align, offset, 2 * size);
    block = claim_hide(mi_realloc(block, 3 * size)); /* any address */
    CLAIM(claim_is_filled(block, 2 * size, 3));
    mi_free(block);
    mi_free(at(mi_calloc_aligned_at(size, 2, align, offset), align, offset, size));
    block = at(mi_recalloc_aligned_at(NULL, size, 1, align, offset), align, offset, size);
    CLAIM(mi_is_in_heap_region(block));
    mi_free(block);
}

static void texts(void) {
    static const unsigned short wide[] = {'a', 0x1234, 0};
    char *text = mi_strdup("a text");
    CLAIM(strcmp(text, "a text") == 0);
    mi_free(text);
    text = mi_strndup("a text", 3);
    CLAIM(strcmp(text, "a t") == 0);
    mi_free(text);
    text = mi_strndup("a text", 300);
    CLAIM(strcmp(text, "a text") == 0);
    free(text);
    CLAIM(mi_strdup(NULL) == NULL && mi_strndup(NULL, 4) == NULL);
    text = mi_realpath("/proc/../proc", NULL);
    CLAIM(strcmp(text, "/proc") == 0);
    mi_free(text);
    char path[PATH_MAX];
    CLAIM(mi_realpath("/proc/..", path) == path && strcmp(path, "/") == 0);
    unsigned short *copy = mi_wcsdup(wide);
    CLAIM(memcmp(copy, wide, sizeof wide) == 0 && mi_wcsdup(NULL) == NULL);
    mi_free(copy);
    unsigned char *bytes = mi_mbsdup((const unsigned char *)"xy");
    CLAIM(strcmp((const char *)bytes, "xy") == 0 && mi_mbsdup(NULL) == NULL);
    mi_free(bytes);
    size_t length = 9;
    CLAIM(setenv("PS_MI_VARIABLE", "value", 1) == 0);
    CLAIM(mi_dupenv_s(&text, &length, "PS_MI_VARIABLE") == 0 && length == 5);
    CLAIM(strcmp(text, "value") == 0);
    mi_free(text);
    CLAIM(mi_dupenv_s(&text, &length, "PS_MI_NONE") == 0 && text == NULL && length == 0);
    CLAIM(mi_dupenv_s(NULL, NULL, "A") == EINVAL && mi_dupenv_s(&text, NULL, NULL) == EINVAL);
}

static int error_calls;

static void on_error(int error, void *arg) {
    CLAIM(error != 0 && arg == &error_calls);
    error_calls++;
}

static void errors(void) {
    void *block = claim_hide(mi_malloc(10));
    mi_register_error(on_error, &error_calls);
    CLAIM(mi_malloc(claim_size(HUGE_SIZE * 3)) == NULL && error_calls > 0);
    CLAIM(mi_calloc(claim_size(HUGE_SIZE), 16) == NULL);
    CLAIM(mi_mallocn(claim_size(HUGE_SIZE), 16) == NULL);
    CLAIM(mi_realloc(block, claim_size(HUGE_SIZE * 3)) == NULL);
    CLAIM(mi_reallocn(block, claim_size(HUGE_SIZE), 16) == NULL);
    CLAIM(mi_recalloc(block, claim_size(HUGE_SIZE), 16) == NULL);
    CLAIM(mi_reallocarray(block, claim_size(HUGE_SIZE), 16) == NULL && errno == ENOMEM);
    CLAIM(mi_malloc_aligned(10, 0) == NULL && mi_malloc_aligned(10, 24) == NULL);
    CLAIM(mi_malloc_aligned_at(10, 3, 1) == NULL);
    CLAIM(mi_malloc_aligned(claim_size(HUGE_SIZE * 3), 64) == NULL);
    CLAIM(mi_pvalloc(claim_size(SIZE_MAX - 100)) == NULL);
    CLAIM(mi_posix_memalign(NULL, 64, 1) == EINVAL && mi_posix_memalign(&block, 24, 1) == EINVAL);
    CLAIM(mi_reallocarr(NULL, 1, 1) == EINVAL);
    CLAIM(mi_reallocarr(&block, 100, 3) == 0 && mi_usable_size(block) >= 300);
    CLAIM(mi_new_nothrow(claim_size(HUGE_SIZE * 3)) == NULL);
    mi_register_error(NULL, NULL);
    CLAIM(mi_reallocf(block, claim_size(HUGE_SIZE * 3)) == NULL);
}

/* A heap that goes with all its blocks, and one whose blocks remain. */
static void heaps(void) {
    static void *blocks[300];
    heap *one = mi_heap_new();
    heap *other = mi_heap_new();
    CLAIM(one != NULL && other != NULL && one != other);
    for (size_t i = 0; i < 300; i++) {
        heap *from = i % 3 == 0 ? other : one;
        blocks[i] = filled(mi_heap_malloc(from, i * i * 4 + 1), i * i * 4 + 1);
        CLAIM(mi_heap_contains_block(from, blocks[i]));
        CLAIM(!mi_heap_contains_block(from == one ? other : one, blocks[i]));
        CLAIM(!mi_heap_contains_block(mi_heap_get_backing(), blocks[i]));
        CLAIM(mi_heap_check_owned(from, blocks[i]));
    }
    void *backing = claim_hide(mi_malloc(100));
    CLAIM(mi_heap_contains_block(mi_heap_get_backing(), backing) && mi_check_owned(backing));
    CLAIM(!mi_heap_contains_block(one, backing));
    mi_free(zero(mi_heap_zalloc(one, 5000), 5000));
    mi_free(zero(mi_heap_calloc(one, 50, 100), 5000));
    CLAIM(mi_heap_mallocn(one, claim_size(HUGE_SIZE), 16) == NULL);
    blocks[1] = filled(mi_heap_realloc(one, blocks[1], 100000), 5);
    CLAIM(mi_heap_contains_block(one, blocks[1]));
    blocks[3] = filled(mi_heap_realloc(one, blocks[3], 200000), 5); /* moves to that heap */
    CLAIM(mi_heap_contains_block(one, blocks[3]));
    backing = filled(mi_heap_realloc(other, backing, 5000), 5000);
    CLAIM(mi_heap_contains_block(other, backing));
    CLAIM(strcmp(mi_heap_strdup(one, "text"), "text") == 0);
    CLAIM(at(mi_heap_malloc_aligned(one, 100, 4096), 4096, 0, 100) != NULL);
    void *odd = at(mi_heap_malloc_aligned_at(one, 100, 64, 8), 64, 8, 100);
    CLAIM(mi_heap_contains_block(one, odd));
    mi_free(odd);
    mi_free(blocks[2]);
    mi_heap_collect(one, false);
    mi_heap_destroy(one);
    mi_heap_delete(other);
    for (size_t i = 6; i < 300; i += 3) { /* those of the deleted one */
        CLAIM(claim_is_filled(blocks[i], i * i * 4 + 1, 3));
        blocks[i] = claim_hide(mi_realloc(blocks[i], i * i * 4 + 5000));
        CLAIM(claim_is_filled(blocks[i], i * i * 4 + 1, 3));
        mi_free(blocks[i]);
    }
    mi_free(blocks[0]);
    mi_free(backing);
    mi_heap_delete(NULL);
    mi_heap_destroy(NULL);
}

static void *default_heaps(void *unused) {
    heap *backing = mi_heap_get_backing();
    heap *own = mi_heap_new();
    CLAIM(mi_heap_get_default() == backing);
    CLAIM(mi_heap_set_default(own) == backing && mi_heap_get_default() == own);
    void *block = claim_hide(mi_malloc(100));
    void *aligned = claim_hide(mi_malloc_aligned(100, 256));
    CLAIM(mi_heap_contains_block(own, block) && mi_heap_contains_block(own, aligned));
    CLAIM(mi_check_owned(block));
    mi_free(block);
    mi_heap_delete(own);
    CLAIM(mi_heap_get_default() == backing);
    mi_free(aligned);
    return unused;
}

static size_t written;

static void on_output(const char *message, void *arg) {
    CLAIM(arg == &written);
    written += strlen(message);
}

static void state(void) {
    size_t values[8] = {0};
    CLAIM(mi_version() >= 200 && mi_version() < 300);
    mi_stats_print_out(on_output, &written);
    CLAIM(written > 100);
    written = 0;
    mi_register_output(on_output, &written);
    mi_stats_print(NULL);
    CLAIM(written > 100);
    mi_register_output(NULL, NULL);
    mi_process_info(&values[0], &values[1], &values[2], &values[3], &values[4], &values[5],
                    &values[6], &values[7]);
    CLAIM(values[0] < 1000000 && values[1] < 1000000 && values[4] > 0);
    mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    mi_option_set(4, 3);
    CLAIM(mi_option_get(4) == 3 && mi_option_get_clamp(4, 0, 2) == 2 && mi_option_is_enabled(4));
    mi_option_set(15, 1234);
    CLAIM(mi_option_get(15) == 1234);
    mi_option_enable(4);
    CLAIM(mi_option_get(4) == 1);
    mi_collect(false);
    mi_collect(true);
    int on_stack = 0;
    CLAIM(!mi_is_in_heap_region(&on_stack) && !mi_check_owned(&on_stack));
    CLAIM(!mi_check_owned(NULL) && !mi_is_in_heap_region(NULL));
}

int main(void) {
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 5000, 20000, 70000, 400000, 3000000};
    if (mi_malloc == NULL) {
        claim_skip("no mi_malloc here");
    }
    state(); /* first: little was written to stderr */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        plain_forms(sizes[i]);
        for (size_t align = 8; align <= 65536; align *= 2) {
            aligned_forms(sizes[i], align);
            offset_forms(sizes[i], align, 8);
            offset_forms(sizes[i], align, align);
            offset_forms(sizes[i], align, align + 24);
        }
    }
    mi_free(filled(mi_malloc_small(100), 100));
    mi_free(zero(mi_zalloc_small(1000), 1000));
    mi_free(at(mi_valloc(10), 4096, 0, 10));
    mi_free(at(mi_pvalloc(10), 4096, 0, 4096));
    mi_free(at(mi_new_aligned_nothrow(10, 512), 512, 0, 10));
    void *none = claim_hide(mi_realloc(mi_malloc(10), 0)); /* a block, as of malloc(0) */
    CLAIM(none != NULL);
    mi_free(none);
    texts();
    errors();
    heaps();
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, default_heaps, NULL) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    return 0;
}
