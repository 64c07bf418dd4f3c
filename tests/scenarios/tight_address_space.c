// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * A program started with 40 MiB of address space runs, and can use half of that: reservations
 * shrink to what there is.
 */
#include "claim.h"
#include "heap_use.h"

#include <sys/resource.h>

int main(int count, char **arguments) {
    if (count == 1) {
        struct rlimit limit = {(rlim_t)40 << 20, (rlim_t)40 << 20};
        CLAIM(setrlimit(RLIMIT_AS, &limit) == 0);
        char *again[] = {arguments[0], "limited", NULL};
        execv("/proc/self/exe", again);
        CLAIM(!"execv returned");
    }
    static void *blocks[20000];
    for (int i = 0; i < 20000; i++) {
        blocks[i] = malloc(1000);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, 1000);
    }
    for (int i = 0; i < 20000; i++) {
        free(blocks[i]);
    }
    char *medium = malloc((size_t)4 << 20);
    CLAIM(medium != NULL);
    free(claim_hide(medium));
    errno = 0;
    CLAIM(malloc((size_t)40 << 20) == NULL && errno == ENOMEM);
    return 0;
}
