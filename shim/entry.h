/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the entry-point files: the export mark, and the guards that libc's contract
 * requires before a request reaches the engine. Entry points never print, and preserve errno on
 * success.
 */
#ifndef PS_SHIM_ENTRY_H
#define PS_SHIM_ENTRY_H

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/promise.h"
#include "pools/engine/harden/site.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"

#include <errno.h>

#define PS_EXPORT __attribute__((visibility("default")))

/* An entry point starts a cache line: its fast path then spans as few lines as possible. */
#define PS_HOT_EXPORT PS_EXPORT PS_ALIGNED(PS_CACHE_LINE)

/* Makes `name` another exported name of a function of the same file. */
#define PS_EXPORT_ALIAS(name, target)                                                              \
    extern __typeof__(target) name PS_EXPORT __attribute__((alias(#target))) PS_COPY(target)

/* count * size, or false with errno ENOMEM. */
static inline bool ps_multiply(size_t count, size_t size, size_t *bytes) {
    if (PS_UNLIKELY(__builtin_mul_overflow(count, size, bytes))) {
        errno = ENOMEM;
        return false;
    }
    return true;
}

/* Notes the call site of an entry point for the request that follows, which is no tail call:
 * pools/engine/harden/site.h. To be used in the entry point itself. */
#define PS_NOTE_SITE()                                                                             \
    do {                                                                                           \
        if (PS_UNLIKELY(ps_site_is_on())) {                                                        \
            ps_site_note((uintptr_t)__builtin_return_address(0));                                  \
        }                                                                                          \
    } while (0)

/* The size that the caller of a free states, where blocks are hardened:
 * pools/engine/harden/promise.c. An invalid alignment is ignored. */
static inline void ps_expect_size(const void *block, size_t size, size_t align) {
    if (PS_UNLIKELY(ps_block_has_promises) && block != NULL) {
        ps_block_check_size(block, size, ps_is_power_of_two(align) ? align : 1);
    }
}

#endif
