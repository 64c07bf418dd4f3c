/* SPDX-License-Identifier: MIT */
/*
 * Shared by all scenarios: CLAIM, which ends the program with the line of a false claim, and a few
 * measurements of the own process. Scenarios include it; it calls libc only and takes no locks.
 * Nothing in here allocates, so that a failing claim cannot disturb what it reports.
 */
#ifndef PS_TESTS_CLAIM_H
#define PS_TESTS_CLAIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/slowness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLAIM_SKIP 77

/* Ends the program with status 1 and the failed expression, or returns. */
#define CLAIM(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            claim_failed(__FILE__, __LINE__, #condition);                                          \
        }                                                                                          \
    } while (0)

__attribute__((noreturn, unused)) static void claim_failed(const char *file, int line,
                                                           const char *condition) {
    int error = errno;
    dprintf(2, "%s:%d: does not hold: %s (errno %d)\n", file, line, condition, error);
    _exit(1);
}

/* Ends the program as skipped, with the reason. */
__attribute__((noreturn, unused)) static void claim_skip(const char *reason) {
    dprintf(2, "skipped: %s\n", reason);
    _exit(CLAIM_SKIP);
}

/* The same pointer, with its origin hidden from the optimiser: no malloc/free pair is elided. */
__attribute__((unused)) static void *claim_hide(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

/* The same size, unknown to the compiler: no warning about sizes that are absurd on purpose. */
__attribute__((unused)) static size_t claim_size(size_t size) {
    __asm__ volatile("" : "+r"(size));
    return size;
}

__attribute__((unused)) static int claim_is_aligned(const void *pointer, size_t alignment) {
    return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

/* Resident bytes of this process now, page by page: statm counts them in batches. */
__attribute__((unused)) static size_t claim_rss_bytes(void) {
    char text[512];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    CLAIM(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CLAIM(length > 0);
    close(file);
    text[length] = '\0';
    const char *line = strstr(text, "\nRss:");
    CLAIM(line != NULL);
    return (size_t)strtoull(line + strlen("\nRss:"), NULL, 10) << 10;
}

/* Whether libpoolshim.so is mapped here: some claims are true of the shim, not of every libc. */
__attribute__((unused)) static int claim_is_shimmed(void) {
    static char text[65536];
    size_t length = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CLAIM(file >= 0);
    while (length < sizeof text - 1) {
        ssize_t got = read(file, text + length, sizeof text - 1 - length);
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    close(file);
    text[length] = '\0';
    return strstr(text, "libpoolshim") != NULL;
}

/* Path of lib<name>.so beside this program, in `path`. */
__attribute__((unused)) static void claim_library_path(char *path, size_t capacity,
                                                       const char *name) {
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    CLAIM(length > 0);
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    CLAIM(slash != NULL);
    size_t left = capacity - (size_t)(slash + 1 - path);
    int written = snprintf(slash + 1, left, "lib%s.so", name);
    CLAIM(written > 0 && (size_t)written < left);
}

/* One byte of the pattern that `claim_fill` writes: depends on the seed and the position. */
__attribute__((unused)) static unsigned char claim_pattern(size_t position, unsigned seed) {
    return (unsigned char)((position * 31u + (position >> 8) * 7u + seed * 131u + 1u) & 0xff);
}

__attribute__((unused)) static void claim_fill(void *block, size_t size, unsigned seed) {
    unsigned char *bytes = (unsigned char *)block;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = claim_pattern(i, seed);
    }
}

/* Whether the first `size` bytes still have the pattern that claim_fill wrote with this seed. */
__attribute__((unused)) static int claim_is_filled(const void *block, size_t size, unsigned seed) {
    const unsigned char *bytes = (const unsigned char *)block;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != claim_pattern(i, seed)) {
            return 0;
        }
    }
    return 1;
}

__attribute__((unused)) static int claim_is_zero(const void *block, size_t size) {
    const unsigned char *bytes = (const unsigned char *)block;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return 0;
        }
    }
    return 1;
}

#endif
