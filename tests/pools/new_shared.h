/* SPDX-License-Identifier: MIT */
/*
 * Shared heaps for tests: in anonymous files, which the system removes. Included by the tests of
 * shared heaps.
 */
#ifndef PS_TESTS_POOLS_NEW_SHARED_H
#define PS_TESTS_POOLS_NEW_SHARED_H

#include "tests/unit/unit.h"

#include <poolshim/shared.h>
#include <sys/mman.h>

/* All options in their order, for C++. */
static const struct ps_shared_options shared_options = {
    {NULL, 0, 0, NULL, NULL, NULL}, 0, (size_t)16 << 20};

/* A descriptor of an empty file. */
__attribute__((unused)) static int shared_file(void) {
    int fd = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(fd >= 0);
    return fd;
}

/* The heap of a file, which is made if it is empty. */
__attribute__((unused)) static struct ps_shared *shared_open(int fd) {
    struct ps_shared *heap;
    enum ps_shared_status status = ps_shared_open_fd(&heap, fd, PS_SHARED_CREATE, &shared_options);
    CHECK_STR_EQ(ps_shared_explain(status), ps_shared_explain(PS_SHARED_OK));
    REQUIRE(status == PS_SHARED_OK);
    return heap;
}

__attribute__((unused)) static void shared_check(struct ps_shared *heap) {
    const char *fault = ps_shared_check(heap);
    CHECK_STR_EQ(fault != NULL ? fault : "none", "none");
}

__attribute__((unused)) static struct ps_shared_stats shared_stats(struct ps_shared *heap) {
    struct ps_shared_stats stats;
    ps_shared_stats(heap, &stats);
    return stats;
}

#endif
