/* SPDX-License-Identifier: MIT */
/*
 * See early.h.
 */
#include "pools/heap/early.h"

#include "pools/base/bits.h"
#include "pools/base/compiler.h"

#define BUFFER_BYTES 65536

static PS_ALIGNED(PS_EARLY_ALIGN) char buffer[BUFFER_BYTES];
static size_t buffer_used;

/* Holds the buffer's address only after the relocation of this word. */
void *volatile ps_early_probe = buffer;

bool ps_early_is_over(void) { return PS_LIKELY(ps_early_probe == (void *)buffer); }

/* Each block is preceded by its size. */
void *ps_early_alloc(size_t bytes, size_t align) {
    uintptr_t base = (uintptr_t)buffer + buffer_used + sizeof(size_t);
    uintptr_t block = ps_round_up(base, ps_max(align, PS_EARLY_ALIGN));
    if (block < base || bytes > (uintptr_t)buffer + BUFFER_BYTES - block ||
        block > (uintptr_t)buffer + BUFFER_BYTES) {
        return NULL;
    }
    ((size_t *)block)[-1] = bytes;
    buffer_used = (size_t)(block - (uintptr_t)buffer) + bytes;
    return (void *)block;
}

size_t ps_early_usable(const void *block) {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)buffer;
    return offset < BUFFER_BYTES ? ((const size_t *)block)[-1] : 0;
}
