// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * mlockall() makes resident all that is accessible, and with MCL_FUTURE all that will be: the
 * library, the heap's tables and the memory that it has opened must be little beyond what the
 * program uses, whether it locks at its start or with a heap of 50 MB.
 */
#include "claim.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define BLOCK_BYTES 1000
#define EARLY_BLOCKS 3000
#define LATE_BLOCKS 50000
#define MORE_BLOCKS 10000

static void *blocks[LATE_BLOCKS + MORE_BLOCKS];

static void take(size_t from, size_t count) {
    for (size_t i = from; i < from + count; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
}

static void expect_at_most(const char *what, size_t limit_bytes) {
    size_t bytes = claim_rss_bytes();
    dprintf(2, "%s: %zu KiB resident, at most %zu\n", what, bytes >> 10, limit_bytes >> 10);
    CLAIM(bytes <= limit_bytes);
}

static void lock_all(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        claim_skip("mlockall is not allowed here");
    }
}

/* The claims are for one thread, in a process that has no heap worth mentioning yet. */
static void lock_early(void) {
    lock_all();
    expect_at_most("locked at the start", 6 * MIB); /* with libc; without the shim 2.5 */
    size_t before = claim_rss_bytes();
    take(0, EARLY_BLOCKS);
    expect_at_most("3 MB of blocks", before + EARLY_BLOCKS * BLOCK_BYTES + 3 * MIB);
}

static void lock_late(void) {
    take(0, LATE_BLOCKS);
    size_t before = claim_rss_bytes();
    lock_all();
    expect_at_most("locked with 50 MB", before + 10 * MIB);
    before = claim_rss_bytes();
    take(LATE_BLOCKS, MORE_BLOCKS);
    expect_at_most("10 MB more", before + MORE_BLOCKS * BLOCK_BYTES + 10 * MIB);
}

static int status_of(void (*work)(void)) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(void) {
    int status = status_of(lock_early);
    return status == 0 ? status_of(lock_late) : status;
}
