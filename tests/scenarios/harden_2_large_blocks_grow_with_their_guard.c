// expect: exit 0
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: what realloc adds to a large block is zero, the old contents are intact, and the page
 * after the end cannot be written to, as long as it grows. */
#include "claim.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Whether a write to the byte after the block stops the writer, a child process. */
static int ends_at_a_guard(char *block, size_t bytes) {
    pid_t child = fork();
    if (child == 0) {
        *(volatile char *)claim_hide(block + bytes) = 1;
        _exit(0);
    }
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static int is_all(const char *bytes, size_t count, char value) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != value) {
            return 0;
        }
    }
    return 1;
}

static void grow_from(size_t bytes, size_t step) {
    char *block = claim_hide(malloc(bytes));
    memset(block, 0x5a, bytes);
    for (int turn = 0; turn < 6; turn++) {
        block = claim_hide(realloc(block, bytes + step));
        CLAIM(block != NULL);
        CLAIM(is_all(block, bytes, 0x5a));
        CLAIM(is_all(block + bytes, step, 0));
        CLAIM(ends_at_a_guard(block, bytes + step));
        bytes += step;
        memset(block, 0x5a, bytes);
    }
    free(block);
}

/* What blocks used to be, for the added parts to lie in. */
static void leave_secrets(void) {
    static char *blocks[40];
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = claim_hide(malloc(MIB + i * 65536));
        memset(blocks[i], 0x77, MIB + i * 65536);
    }
    for (size_t i = 0; i < 40; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    leave_secrets();
    grow_from(4096 * 100, 4096);
    grow_from(4096 * 100, 65536 * 3);
    leave_secrets();
    grow_from(3 * MIB, MIB);
    grow_from(40 * MIB, 4096); /* a mapping of its own */
    grow_from(40 * MIB, 8 * MIB);
    return 0;
}
