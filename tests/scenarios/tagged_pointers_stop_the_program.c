// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * The address of a live block with bits set above the 48 that addresses have: malloc returned
 * no such pointer, and freeing or growing one ends the program by a signal, whatever the size.
 * (Small ones end where free touches the block, by SIGSEGV: telling them apart would cost every
 * free.)
 */
#include "claim.h"

#include <signal.h>
#include <sys/wait.h>

static void expect_end(void *block, unsigned tag, int is_grown) {
    void *tagged = claim_hide((void *)((uintptr_t)block | (uintptr_t)1 << tag));
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        close(2);
        if (is_grown) {
            claim_hide(realloc(tagged, 10000000));
        } else {
            free(tagged);
        }
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    CLAIM(WIFSIGNALED(status));
    CLAIM(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGABRT);
}

int main(void) {
    if (!claim_is_shimmed() || sizeof(void *) != 8) {
        claim_skip("nothing is preloaded");
    }
    for (size_t size = 16; size < 100000000; size *= 9) {
        void *block = claim_hide(malloc(size));
        CLAIM(block != NULL);
        for (unsigned tag = 48; tag < 64; tag += 5) {
            expect_end(block, tag, 0);
            expect_end(block, tag, 1);
        }
        free(block);
    }
    return 0;
}
