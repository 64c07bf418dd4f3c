// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * What glibc's functions about the heap say, and how it fits together.
 * tests/shim/test_introspect.py runs it with glibc's malloc, too: its readers find the same
 * elements and sums.
 */
#include "claim.h"

#include <malloc.h>
#include <mcheck.h>

#define COUNT 64

static void *blocks[COUNT];

static size_t size_of(int i) { return i % 8 == 7 ? (size_t)1 << 20 : 24 + (size_t)i * 37; }

/* Bytes in use, mappings of single blocks included. */
static size_t used(void) {
    struct mallinfo2 info = mallinfo2();
    CLAIM(info.arena == info.uordblks + info.fordblks);
    CLAIM(info.keepcost <= info.arena + info.hblkhd + ((size_t)64 << 20));
    CLAIM((info.hblks == 0) == (info.hblkhd == 0));
    CLAIM(info.usmblks == 0);
    return info.uordblks + info.hblkhd;
}

static void figures_follow_the_blocks(void) {
    size_t before = used();
    size_t bytes = 0;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = claim_hide(malloc(size_of(i)));
        bytes += size_of(i);
    }
    size_t full = used();
    CLAIM(full >= before + bytes && full <= before + bytes + bytes / 4);
    struct mallinfo narrow = mallinfo();
    struct mallinfo2 wide = mallinfo2();
    CLAIM((size_t)narrow.uordblks == wide.uordblks && (size_t)narrow.hblks == wide.hblks);
    for (int i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
    CLAIM(used() <= before + (64 << 10)); /* glibc's cache of a thread counts as used */
}

/* The value of an attribute of the first element that begins with `head`, from *at on, which moves
 * past it. */
static size_t value_of(const char **at, const char *head, const char *attribute) {
    char wanted[32];
    int length = snprintf(wanted, sizeof wanted, " %s=\"", attribute);
    CLAIM(length > 0);
    const char *element = strstr(*at, head);
    CLAIM(element != NULL);
    const char *end = strstr(element, "/>");
    const char *found = strstr(element, wanted);
    CLAIM(end != NULL && found != NULL && found < end);
    *at = element + strlen(head);
    return strtoull(found + length, NULL, 10);
}

/* The elements of a heap, or of the sums, in glibc's order. Returns the current size. */
static size_t read_sums(const char **at) {
    (void)value_of(at, "<total type=\"fast\"", "count");
    (void)value_of(at, "<total type=\"rest\"", "size");
    const char *current = *at;
    size_t size = value_of(at, "<system type=\"current\"", "size");
    CLAIM(value_of(at, "<system type=\"max\"", "size") >= size);
    CLAIM(value_of(at, "<aspace type=\"total\"", "size") >= size);
    CLAIM(value_of(at, "<aspace type=\"mprotect\"", "size") >= size);
    CLAIM(current < *at);
    return size;
}

static void xml_has_glibcs_elements(void) {
    static char text[1 << 16];
    static const char *const heads[] = {"<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n",
                                        "</sizes>\n<total type=\"fast\"", "</heap>\n",
                                        "</malloc>\n"};
    void *mapped = claim_hide(malloc((size_t)64 << 20));
    FILE *stream = fmemopen(text, sizeof text, "w");
    CLAIM(stream != NULL);
    CLAIM(malloc_info(1, stream) == EINVAL && malloc_info(-1, stream) == EINVAL);
    CLAIM(ftell(stream) == 0);
    CLAIM(malloc_info(0, stream) == 0);
    CLAIM(fclose(stream) == 0);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        CLAIM(strstr(text, heads[i]) != NULL);
    }
    const char *at = strstr(text, "</sizes>");
    size_t of_heap = read_sums(&at);
    at = strstr(at, "</heap>");
    const char *sums = at;
    CLAIM(read_sums(&at) >= of_heap);
    CLAIM(value_of(&sums, "<total type=\"mmap\"", "size") >= (size_t)64 << 20);
    free(mapped);
}

static void hints_are_taken(void) {
    static const int hints[] = {M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
                                M_CHECK_ACTION,   M_ARENA_TEST, M_ARENA_MAX};
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        CLAIM(mallopt(hints[i], 1 << 20) == 1);
    }
    CLAIM(mallopt(M_MXFAST, 0) == 1 && mallopt(M_MXFAST, 160) == 1 && mallopt(M_MXFAST, 161) == 0);
}

/* The checks are those of libc_malloc_debug.so, which is not loaded. */
static void checks_are_off(void) {
    void *block = claim_hide(malloc(10));
    CLAIM(mcheck(NULL) == -1 && mcheck_pedantic(NULL) == -1);
    CLAIM(mprobe(block) == MCHECK_DISABLED);
    mcheck_check_all();
    mtrace();
    muntrace();
    free(block);
}

static void sizes_and_trims(void) {
    CLAIM(malloc_usable_size(NULL) == 0);
    for (size_t size = 1; size < 100000; size += 1 + size / 3) {
        void *block = claim_hide(malloc(size));
        size_t usable = malloc_usable_size(block);
        CLAIM(usable >= size && usable <= size + size / 4 + 8192);
        free(block);
    }
    int first = malloc_trim(0);
    CLAIM((first == 0 || first == 1) && malloc_trim(0) <= 1);
    CLAIM(malloc_trim((size_t)1 << 40) <= 1);
}

int main(void) {
    figures_follow_the_blocks();
    xml_has_glibcs_elements();
    hints_are_taken();
    checks_are_off();
    sizes_and_trims();
    return 0;
}
