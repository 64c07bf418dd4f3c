// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Blocks that grow by realloc beyond the free memory after them: the process's peak is hardly more
 * than their size in the end, since their pages move and are not copied.
 *
 *     growing_blocks_are_in_memory_once [blocks] [KiB each, at the end]
 */
#include "claim.h"

#include <fcntl.h>

#define KIB ((size_t)1 << 10)
#define BLOCKS_MAX 64
#define FIRST_BYTES 1000

static char *blocks[BLOCKS_MAX];

/* Of this address space: the system's other maximum includes what the process was before exec. */
static size_t peak_bytes(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    CLAIM(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CLAIM(length > 0 && close(file) == 0);
    text[length] = 0;
    const char *line = strstr(text, "VmHWM:");
    CLAIM(line != NULL);
    return strtoull(line + strlen("VmHWM:"), NULL, 10) * KIB;
}

/* All blocks grow in turns, by an eighth, and are written to their ends. */
static void grow(size_t count, size_t end_bytes) {
    size_t bytes = FIRST_BYTES;
    for (size_t before = 0; before < end_bytes; before = bytes, bytes += bytes / 8) {
        bytes = bytes > end_bytes ? end_bytes : bytes;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = claim_hide(realloc(blocks[i], bytes));
            CLAIM(blocks[i] != NULL);
            CLAIM(before == 0 || (size_t)blocks[i][before - 1] == i + 1);
            memset(blocks[i] + before, (int)(i + 1), bytes - before);
        }
    }
}

int main(int argc, char **argv) {
    size_t count = argc > 1 ? (size_t)atoi(argv[1]) : 20;
    size_t end_bytes = (argc > 2 ? (size_t)atoi(argv[2]) : 14 * KIB) * KIB;
    CLAIM(count > 0 && count <= BLOCKS_MAX);
    grow(count, end_bytes);
    size_t held = count * end_bytes;
    dprintf(2, "%zu MiB held, %zu at the peak\n", held / KIB / KIB, peak_bytes() / KIB / KIB);
    CLAIM(peak_bytes() <= held + held / 10);
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    return 0;
}
