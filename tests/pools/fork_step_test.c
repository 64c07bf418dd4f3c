/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work with pages and slices (fork_step.h): the
 * child must be able to use both, at whichever instruction of a locked section that thread is, and
 * must never be given memory in use.
 */
#include <poolshim/slice.h>

#include "pools/pages/pages.h"
#include "tests/unit/fork_pages.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/fresh.h"

#define SLICES 300

static unsigned char *kept_slices[KEPT]; /* allocated before the fork, freed by the child */

/* ---- invariants in the child ---- */

static size_t slice_bytes(size_t i) { return 16 + i % 9 * 250; }

static unsigned char *filled_slice(size_t i, size_t mark) {
    unsigned char *slice = ps_slice_alloc(slice_bytes(i));
    REQUIRE(slice != NULL);
    fill(slice, slice_bytes(i), mark);
    return slice;
}

static void check_and_free_slices(unsigned char **slices, size_t count, size_t first_mark) {
    for (size_t i = 0; i < count && slices[i] != NULL; i++) {
        check_filled(slices[i], slice_bytes(i), i + first_mark);
        ps_slice_free(slice_bytes(i), slices[i]);
        slices[i] = NULL;
    }
}

static void use_everything(void) {
    static unsigned char *slices[SLICES];
    take_pages();
    for (size_t i = 0; i < SLICES; i++) {
        slices[i] = filled_slice(i, i + 9);
    }
    check_kept_pages();
    check_and_free_slices(kept_slices, KEPT, 100);
    free_kept_pages();
    free_taken_pages();
    check_and_free_slices(slices, SLICES, 9);
    ps_slice_trim_to(0);
    ps_pages_trim_to(0);
}

static void allocate_kept(void) {
    allocate_kept_pages();
    for (size_t i = 0; i < KEPT; i++) {
        kept_slices[i] = filled_slice(i, i + 100);
    }
}

/* ---- operations ---- */

static void pages_come_and_go(void) {
    ps_pages_magazine_limit(0); /* each call goes to the depot */
    void *a = ps_pages_alloc(3 * PAGE, PAGE);
    void *b = ps_pages_alloc(PAGE, PAGE);
    void *c = ps_pages_alloc(20 * PAGE, PAGE);
    ps_pages_free(a, 3 * PAGE);
    a = ps_pages_alloc(2 * PAGE, PAGE);
    if (ps_pages_extend(c, 20 * PAGE, 40 * PAGE)) {
        ps_pages_free(c, 40 * PAGE);
    } else {
        ps_pages_free(c, 20 * PAGE);
    }
    ps_pages_free(b, PAGE);
    ps_pages_free(a, 2 * PAGE);
}

FRESH_TEST(pages_through_the_depot) {
    fork_at_each_step(allocate_kept, pages_come_and_go, use_everything, 43);
}

static void magazine_of_an_ending_thread(void) {
    void *pages[12];
    for (size_t i = 0; i < 12; i++) {
        pages[i] = ps_pages_alloc((i % 4 + 1) * PAGE, PAGE);
    }
    for (size_t i = 0; i < 12; i++) {
        ps_pages_free(pages[i], (i % 4 + 1) * PAGE);
    }
    ps_pages_trim_to(0); /* what a magazine has, then the memory of lone pages */
}

FRESH_TEST(a_magazine_is_made_filled_and_emptied) {
    fork_at_each_step(allocate_kept, magazine_of_an_ending_thread, use_everything, 61);
}

static void slices_come_and_go(void) {
    void *slices[80];
    for (size_t i = 0; i < 80; i++) {
        slices[i] = ps_slice_alloc(2000); /* eight to a list: the depot is asked soon */
    }
    for (size_t i = 0; i < 80; i++) {
        ps_slice_free(2000, slices[i]);
    }
    ps_slice_trim_to(0);
}

FRESH_TEST(slices_through_the_depot) {
    fork_at_each_step(allocate_kept, slices_come_and_go, use_everything, 61);
}

/* ---- before the first slice of the process ---- */

/* The calls of a process where no thread has a cache: one with PS_DEBUG=malloc, for example. */
static void read_and_trim(void) {
    struct ps_slice_stats stats;
    ps_slice_stats(&stats);
    ps_slice_trim_to(0);
}

FRESH_TEST(the_depot_is_read_and_trimmed_before_the_first_slice) {
    fork_at_each_step(NULL, read_and_trim, use_everything, 61);
}

static void start_pages(void) { ps_pages_free(ps_pages_alloc(PAGE, PAGE), PAGE); }

static void allocate_and_free(void) { ps_slice_free(24, ps_slice_alloc(24)); }

FRESH_TEST(the_first_slice_of_the_process) {
    fork_at_each_step(start_pages, allocate_and_free, use_everything, 23);
}

/* ---- handlers of the program, which run first in the child ---- */

static bool has_older_handler;

static void use_before_repairs(void) {
    if (has_older_handler) {
        slowness_alarm(20);
        struct ps_slice_stats stats;
        ps_slice_stats(&stats);
        ps_slice_free(2000, ps_slice_alloc(2000));
        ps_slice_trim_to(0);
    }
}

__attribute__((constructor(101))) static void program_loaded(void) {
    (void)pthread_atfork(NULL, NULL, use_before_repairs);
}

FRESH_TEST(older_handlers_use_slices_of_which_another_thread_made_the_first) {
    has_older_handler = true;
    fork_at_each_step(NULL, slices_come_and_go, use_everything, 241);
}

FRESH_TEST(older_handlers_use_slices_that_another_thread_counts) {
    has_older_handler = true;
    fork_at_each_step(allocate_kept, read_and_trim, use_everything, 61);
}

UNIT_MAIN
