// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Pointers that are not ours, in every call that takes one, under each policy; exact words. */
#include "tests/unit/engine.h"

#include "pools/engine/harden/stray.h"

static char static_bytes[64];

/* An address inside a live block of each kind that is not its start, and so no block. */
static void *inside_of(void *block) { return (char *)block + 4096 * 3; }

static void check_aborts_in_every_call(void *pointer, const char *address) {
    char text[3][100];
    snprintf(text[0], sizeof text[0], "poolshim: free of foreign pointer %s\n", address);
    snprintf(text[1], sizeof text[1], "poolshim: size of foreign pointer %s\n", address);
    snprintf(text[2], sizeof text[2], "poolshim: realloc of foreign pointer %s\n", address);
    CHECK_ABORTS(ps_heap_free(pointer), text[0]);
    CHECK_ABORTS(ps_block_usable(pointer), text[1]);
    CHECK_ABORTS(ps_block_resize(pointer, 100), text[2]);
}

FRESH_TEST(a_foreign_pointer_is_named_and_stops_the_program) {
    ps_engine_start();
    char text[32];
    check_aborts_in_every_call((void *)0x10, "0x10");
    check_aborts_in_every_call((void *)(uintptr_t)0xdead00000000beb0u, "0xdead00000000beb0");
    snprintf(text, sizeof text, "%p", (void *)static_bytes);
    check_aborts_in_every_call(static_bytes, text);
    snprintf(text, sizeof text, "%p", (void *)text);
    check_aborts_in_every_call(text, text);
}

FRESH_TEST(a_foreign_pointer_in_the_first_call_of_the_process_is_named) {
    CHECK_ABORTS(ps_heap_free(static_bytes), "poolshim: free of foreign pointer 0x");
}

FRESH_TEST(the_inside_and_the_second_free_of_a_large_block_are_named) {
    const size_t sizes[] = {100 * KIB, 5 * MIB};
    for (size_t i = 0; i < 2; i++) {
        void *block = ps_heap_alloc(sizes[i]);
        CHECK_ABORTS(ps_heap_free(inside_of(block)), "poolshim: free of interior pointer ");
        ps_heap_free(block);
        CHECK_ABORTS(ps_heap_free(block), "poolshim: double free of ");
        CHECK_ABORTS(ps_block_usable(block), "poolshim: size of free block ");
    }
}

/* All calls with a foreign pointer, under a policy by which the program continues. */
static void meet_all(void) {
    errno = 4711;
    ps_heap_free(static_bytes);
    CHECK_EQ(errno, 4711);
    CHECK_EQ(ps_block_usable(static_bytes), 0);
    CHECK_PTR_EQ(ps_block_resize(static_bytes, 100), NULL);
    CHECK_EQ(errno, ENOMEM);
    check_live_blocks(0);
}

/* What meet_all prints on stderr. */
static void capture(char *output, size_t bytes) {
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        meet_all();
        _exit(unit_failures);
    }
    size_t length = 0;
    ssize_t got;
    while ((got = read(child.stderr_fd, output + length, bytes - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = '\0';
    close(child.stderr_fd);
    int status = 0;
    waitpid(child.pid, &status, 0);
    CHECK_EQ(status, 0);
}

FRESH_TEST(warn_prints_a_line_each_and_ignores_the_call) {
    char output[1000];
    char wanted[1000];
    engine_config.foreign = PS_FOREIGN_WARN;
    capture(output, sizeof output);
    snprintf(wanted, sizeof wanted,
             "poolshim: free of foreign pointer %p\npoolshim: size of foreign pointer %p\n"
             "poolshim: realloc of foreign pointer %p\n",
             (void *)static_bytes, (void *)static_bytes, (void *)static_bytes);
    CHECK_STR_EQ(output, wanted);
}

FRESH_TEST(ignore_says_nothing) {
    char output[1000];
    engine_config.foreign = PS_FOREIGN_IGNORE;
    capture(output, sizeof output);
    CHECK_STR_EQ(output, "");
}

UNIT_MAIN
