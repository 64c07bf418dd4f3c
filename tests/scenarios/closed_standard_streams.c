// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * A program that closes stdin, stdout and stderr gets descriptors 0, 1 and 2 for its own files,
 * and the allocator neither writes into them nor closes them.
 */
#include "claim.h"
#include "heap_use.h"

int main(void) {
    char name[] = "/tmp/poolshim-scenario-XXXXXX";
    int scratch = mkstemp(name);
    CLAIM(scratch > 2);
    CLAIM(unlink(name) == 0);
    int report = dup2(2, 100);
    CLAIM(report == 100);
    for (int file = 0; file < 3; file++) {
        close(file);
    }
    int ok = dup(scratch) == 0 && dup(scratch) == 1 && dup(scratch) == 2;
    for (int i = 0; i < 50 && ok; i++) {
        ok = heap_use();
    }
    for (int i = 0; i < 300 && ok; i++) {
        free(claim_hide(malloc((size_t)1 << (i % 26))));
    }
    ok = ok && lseek(scratch, 0, SEEK_END) == 0;
    for (int file = 0; file < 3 && ok; file++) {
        ok = fcntl(file, F_GETFD) >= 0;
    }
    CLAIM(dup2(report, 2) == 2);
    CLAIM(ok);
    return 0;
}
