/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work with pages and slices (fork_step.h): the
 * child must be able to use both, wherever inside of a locked section that thread stands, and must
 * never be given memory that is in use.
 */
#include <poolshim/pages.h>
#include <poolshim/slice.h>

#include "pools/pages/pages.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/fresh.h"

#define PAGE ((size_t)4096)
#define KEPT 24

static unsigned char *kept_pages[KEPT]; /* allocated before the fork, freed by the child */
static size_t kept_bytes[KEPT];
static unsigned char *kept_slices[KEPT];

/* ---- what must hold in the child ---- */

static void fill(unsigned char *memory, size_t bytes, size_t mark) {
    memset(memory, (int)(mark % 255 + 1), bytes);
}

static void check_filled(const unsigned char *memory, size_t bytes, size_t mark) {
    for (size_t i = 0; i < bytes; i += 61) {
        if (memory[i] != (unsigned char)(mark % 255 + 1)) {
            CHECK_EQ(memory[i], mark % 255 + 1);
            return;
        }
    }
}

static size_t pages_bytes(size_t i) { return (i % 7 == 0 ? 20 + i : 1 + i % 5) * PAGE; }

static size_t slice_bytes(size_t i) { return 16 + i % 9 * 250; }

static void check_kept(void) {
    for (size_t i = 0; i < KEPT; i++) {
        if (kept_pages[i] != NULL) {
            check_filled(kept_pages[i], kept_bytes[i], i);
        }
        if (kept_slices[i] != NULL) {
            check_filled(kept_slices[i], slice_bytes(i), i + 100);
        }
    }
}

static void use_everything(void) {
    static unsigned char *pages[60];
    static unsigned char *slices[300];
    for (size_t i = 0; i < 60; i++) {
        pages[i] = ps_pages_alloc(pages_bytes(i), PAGE);
        REQUIRE(pages[i] != NULL);
        fill(pages[i], pages_bytes(i), i + 7);
    }
    for (size_t i = 0; i < 300; i++) {
        slices[i] = ps_slice_alloc(slice_bytes(i));
        REQUIRE(slices[i] != NULL);
        fill(slices[i], slice_bytes(i), i + 9);
    }
    check_kept();
    for (size_t i = 0; i < KEPT; i++) {
        if (kept_pages[i] != NULL) {
            ps_pages_free(kept_pages[i], kept_bytes[i]);
        }
        if (kept_slices[i] != NULL) {
            ps_slice_free(slice_bytes(i), kept_slices[i]);
        }
    }
    for (size_t i = 0; i < 60; i++) {
        check_filled(pages[i], pages_bytes(i), i + 7);
        ps_pages_free(pages[i], pages_bytes(i));
    }
    for (size_t i = 0; i < 300; i++) {
        check_filled(slices[i], slice_bytes(i), i + 9);
        ps_slice_free(slice_bytes(i), slices[i]);
    }
    ps_slice_trim();
    ps_pages_trim(0);
    memset(kept_pages, 0, sizeof kept_pages);
    memset(kept_slices, 0, sizeof kept_slices);
}

static void allocate_kept(void) {
    for (size_t i = 0; i < KEPT; i++) {
        kept_bytes[i] = pages_bytes(i);
        kept_pages[i] = ps_pages_alloc(kept_bytes[i], PAGE);
        kept_slices[i] = ps_slice_alloc(slice_bytes(i));
        REQUIRE(kept_pages[i] != NULL && kept_slices[i] != NULL);
        fill(kept_pages[i], kept_bytes[i], i);
        fill(kept_slices[i], slice_bytes(i), i + 100);
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
    ps_pages_trim(0); /* what a magazine has, then the memory of lone pages */
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
    ps_slice_trim();
}

FRESH_TEST(slices_through_the_depot) {
    fork_at_each_step(allocate_kept, slices_come_and_go, use_everything, 61);
}

/* ---- before the first slice of the process ---- */

/* As in a process with PS_DEBUG=malloc, or one that only prints statistics: no thread has a cache.
 */
static void read_and_trim(void) {
    struct ps_slice_stats stats;
    ps_slice_stats(&stats);
    ps_slice_trim();
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
        alarm(20);
        struct ps_slice_stats stats;
        ps_slice_stats(&stats);
        ps_slice_free(2000, ps_slice_alloc(2000));
        ps_slice_trim();
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
