/* SPDX-License-Identifier: MIT */
/*
 * For the tests of fifos and rings: a source that counts and can refuse, and a way to run all tests
 * of a program again in another mode. Owns no state. Any thread.
 */
#ifndef PS_TESTS_POOLS_FIFO_RING_SOURCE_H
#define PS_TESTS_POOLS_FIFO_RING_SOURCE_H

#include "pools/chunk/debug.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <poolshim/source.h>

/* Counts what it hands out, and refuses call number `fail_at`. */
struct counting_source {
    struct ps_source source;
    size_t calls;
    size_t chunks;
    size_t bytes;
    size_t fail_at;
};

static void *counting_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct counting_source *counting = (struct counting_source *)source;
    if (__atomic_add_fetch(&counting->calls, 1, __ATOMIC_RELAXED) >= counting->fail_at) {
        errno = ENOMEM;
        return NULL;
    }
    void *chunk = NULL;
    REQUIRE(posix_memalign(&chunk, align, bytes) == 0);
    memset(chunk, 0xa5, bytes);
    __atomic_add_fetch(&counting->chunks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counting->bytes, bytes, __ATOMIC_RELAXED);
    return chunk;
}

static void counting_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct counting_source *counting = (struct counting_source *)source;
    __atomic_sub_fetch(&counting->chunks, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&counting->bytes, bytes, __ATOMIC_RELAXED);
    free(chunk);
}

__attribute__((unused)) static struct counting_source new_source(void) {
    return (struct counting_source){.source = {counting_alloc, counting_free}, .fail_at = SIZE_MAX};
}

/* In malloc mode the source is not asked, and in both modes the layout is another. */
__attribute__((unused)) static bool has_layout(void) {
    return !ps_debug_is_malloc() && !ps_debug_is_check();
}

/* All tests again, in a child that reads PS_DEBUG itself. */
__attribute__((unused)) static void run_again(const char *mode) {
    if (getenv("PS_DEBUG") != NULL) {
        return;
    }
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        setenv("PS_DEBUG", mode, 1);
        execl("/proc/self/exe", "again", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

#endif
