/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's prototypes and flags, for programs that are linked with neither: test_jemalloc.py
 * preloads one library or the other, and each claim must be true of both.
 */
#ifndef JEMALLOC_CLAIMS_H
#define JEMALLOC_CLAIMS_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);
int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp);
int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
                 size_t newlen);
size_t malloc_usable_size(void *block);

#define MALLOCX_LG_ALIGN(lg) ((int)(lg))
#define MALLOCX_ALIGN(a)                                                                           \
    ((int)((size_t)(a) < (size_t)INT_MAX ? ffs((int)(a)) - 1 : ffs((int)((size_t)(a) >> 32)) + 31))
#define MALLOCX_ZERO 0x40
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((((int)(a)) + 1) << 20)
#define ARENAS_ALL 4096

#define CLAIM(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The value of a name that can be read. */
#define READ(name, type)                                                                           \
    __extension__({                                                                                \
        type value_;                                                                               \
        size_t length_ = sizeof value_;                                                            \
        CLAIM(mallctl(name, &value_, &length_, NULL, 0) == 0);                                     \
        CLAIM(length_ == sizeof value_);                                                           \
        value_;                                                                                    \
    })

/* The error of a write of a value. */
#define WRITE(name, type, value)                                                                   \
    __extension__({                                                                                \
        type value_ = (value);                                                                     \
        mallctl(name, NULL, NULL, &value_, sizeof value_);                                         \
    })

#define ACT(name) mallctl(name, NULL, NULL, NULL, 0)

static inline bool is_filled(const void *block, int byte, size_t from, size_t end) {
    const unsigned char *bytes = block;
    for (size_t i = from; i < end; i++) {
        if (bytes[i] != byte) {
            return false;
        }
    }
    return true;
}

#endif
