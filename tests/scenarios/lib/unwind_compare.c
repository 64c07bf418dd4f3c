// sources: shim/unwind.c shim/unwind_cache.c shim/unwind_object.c shim/preloaded/loader.c
// sources: shim/unwind_head.c shim/unwind_pages.c shim/unwind_table.c shim/unwind_table_ops.c
// sources: pools/engine/os/auxiliary.c pools/engine/os/clock.c pools/engine/os/mte.c
// sources: pools/engine/os/os_linux.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * To be preloaded: compares, at every so many calls of malloc, a walk of shim/unwind.h with one of
 * libgcc's unwinder, and prints both counts on stderr at exit: "unwind_compare: 1234 walks, 0
 * differ". UNWIND_COMPARE_EVERY: calls between two walks, 100 by default; UNWIND_COMPARE_SHOW:
 * print the frames of the first that differ.
 */
#include "shim/unwind.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FRAMES 128

extern void *__libc_malloc(size_t bytes);

static unsigned long every;
static int is_shown;
static int is_ready;
static unsigned long calls, walks, differing;
static __thread int is_inside;

struct both {
    uintptr_t ours[FRAMES];
    size_t our_count;
    void *theirs[FRAMES];
    size_t their_count;
};

static void show(const struct both *both, size_t first) {
    char text[64];
    int bytes = snprintf(text, sizeof text, "unwind_compare: from %zu\n", first);
    (void)!write(STDERR_FILENO, text, (size_t)bytes);
    for (size_t i = 0; first + i < both->our_count; i++) {
        bytes = snprintf(text, sizeof text, "  ours %zx\n", (size_t)both->ours[first + i]);
        (void)!write(STDERR_FILENO, text, (size_t)bytes);
    }
    backtrace_symbols_fd((void *const *)both->theirs, (int)both->their_count, STDERR_FILENO);
}

/* Both are from here on, outwards; ours may have more frames, where theirs ended at generated
 * code. */
static void compare(uintptr_t caller) {
    struct both both = {.our_count = 0};
    struct ps_unwind walk;
    uintptr_t site;
    both.their_count = (size_t)backtrace(both.theirs, FRAMES);
    ps_unwind_here(&walk);
    while (both.our_count < FRAMES && (site = ps_unwind_next(&walk)) != 0) {
        both.ours[both.our_count++] = site;
    }
    ps_unwind_end(&walk);
    size_t first = 0, other = 0;
    while (first < both.our_count && both.ours[first] != caller - 1) {
        first++;
    }
    while (other < both.their_count && (uintptr_t)both.theirs[other] != caller) {
        other++;
    }
    size_t theirs = both.their_count - other, ours = both.our_count - first;
    size_t same = 0;
    while (same < ours && same < theirs &&
           (uintptr_t)both.theirs[other + same] - both.ours[first + same] <= 1) {
        same++;
    }
    bool is_cut = both.their_count == FRAMES || both.our_count == FRAMES;
    __atomic_fetch_add(&walks, 1, __ATOMIC_RELAXED);
    if (same == 0 || (same < theirs && !is_cut)) {
        if (__atomic_fetch_add(&differing, 1, __ATOMIC_RELAXED) == 0 && is_shown) {
            show(&both, first);
        }
    }
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("UNWIND_COMPARE_EVERY");
    void *frame;
    every = text != NULL ? strtoul(text, NULL, 10) : 100;
    is_shown = getenv("UNWIND_COMPARE_SHOW") != NULL;
    (void)backtrace(&frame, 1);
    ps_unwind_start();
    __atomic_store_n(&is_ready, every != 0, __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void finish(void) {
    char text[128];
    int bytes =
        snprintf(text, sizeof text, "unwind_compare: %lu walks, %lu differ\n", walks, differing);
    (void)!write(STDERR_FILENO, text, (size_t)bytes);
}

void *malloc(size_t bytes) {
    if (__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE) && !is_inside &&
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % every == 0) {
        is_inside = 1;
        compare((uintptr_t)__builtin_return_address(0));
        is_inside = 0;
    }
    return __libc_malloc(bytes);
}
