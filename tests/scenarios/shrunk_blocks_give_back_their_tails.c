// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * realloc to a smaller size gives the rest of a large block back at once, however little it is, and
 * preserves the contents of the head.
 *
 *     shrunk_blocks_give_back_their_tails [mib] [mib after]
 */
#include "claim.h"

#define MIB ((size_t)1 << 20)
#define SLACK (2 * MIB)

static void check(size_t from_bytes, size_t to_bytes) {
    size_t before = claim_rss_bytes();
    char *block = malloc(from_bytes);
    CLAIM(block != NULL);
    memset(block, 1, from_bytes);
    claim_fill(block, MIB, 7);
    block = claim_hide(realloc(block, to_bytes));
    CLAIM(block != NULL && claim_is_filled(block, MIB, 7) && block[to_bytes - 1] == 1);
    size_t held = claim_rss_bytes() - before;
    dprintf(2, "%zu MiB shrunk to %zu: %zu MiB resident\n", from_bytes / MIB, to_bytes / MIB,
            held / MIB);
    CLAIM(held <= to_bytes + SLACK);
    block = claim_hide(realloc(block, from_bytes)); /* and it may grow again */
    CLAIM(block != NULL && claim_is_filled(block, MIB, 7) && block[to_bytes - 1] == 1);
    memset(block + to_bytes, 2, from_bytes - to_bytes);
    free(block);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        check((size_t)atoi(argv[1]) * MIB, (size_t)atoi(argv[2]) * MIB);
        return 0;
    }
    check(128 * MIB, 66 * MIB);
    check(128 * MIB, 120 * MIB);
    check(40 * MIB, 36 * MIB);
    return 0;
}
