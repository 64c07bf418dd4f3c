// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * If only the heads of buffers are touched, little more than their pages is resident: no huge page
 * makes the rest of them resident.
 */
#include "claim.h"

#include <sys/mman.h>
#include <sys/wait.h>

struct buffers {
    size_t count;
    size_t bytes;
    size_t touched_bytes;
};

/* The pages that are touched, and a tenth; what the heap itself needs at first. */
static size_t limit_of(const struct buffers *buffers) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t each = (buffers->touched_bytes + page - 1) / page * page;
    return buffers->count * each * 11 / 10 + ((size_t)3 << 20);
}

static void check(const struct buffers *buffers) {
    size_t before = claim_rss_bytes();
    for (size_t i = 0; i < buffers->count; i++) {
        char *buffer = claim_hide(malloc(buffers->bytes));
        CLAIM(buffer != NULL);
        memset(buffer, 1, buffers->touched_bytes);
    }
    size_t held = claim_rss_bytes() - before;
    dprintf(2, "%zu of %zu bytes, %zu touched: %zu MiB resident, at most %zu\n", buffers->count,
            buffers->bytes, buffers->touched_bytes, held >> 20, limit_of(buffers) >> 20);
    CLAIM(held <= limit_of(buffers));
}

int main(void) {
    static const struct buffers all[] = {
        {8000, 65536, 64}, {20000, 16384, 64}, {10000, 32768, 4096}, {50000, 8192, 64}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            check(&all[i]);
            _exit(0);
        }
        int status;
        CLAIM(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CLAIM(WEXITSTATUS(status) == 0);
    }
    return 0;
}
