/* SPDX-License-Identifier: MIT */
/*
 * What a program did wrong with a block, as far as it was noticed: one line on stderr, then abort.
 * Called from the paths that met it. No locks, no allocation.
 *
 *   poolshim: double free of 0x7f52a0010040 (size class 64, thread 3141)
 *
 * The size class is that of the block's span, the thread the one that met it, by the system's
 * number.
 */
#ifndef PS_SMALL_MISUSE_H
#define PS_SMALL_MISUSE_H

#include "pools/engine/small/span.h"

/* What a program does with an address. */
enum ps_misuse_call { PS_MISUSE_FREE, PS_MISUSE_REALLOC, PS_MISUSE_SIZE };

/* What is there instead of a live block. */
enum ps_misuse_state {
    PS_MISUSE_OF_FREE,
    PS_MISUSE_OF_INTERIOR,
    PS_MISUSE_OF_FOREIGN,
    PS_MISUSE_STATES
};

/* "free of interior pointer" */
const char *ps_misuse_words(enum ps_misuse_call call, enum ps_misuse_state state);

/* A call about an address within a span that cannot be: it is inside of a block, or the block is
 * free. */
PS_NORETURN void ps_misuse_met(const struct ps_span *span, const void *block,
                               enum ps_misuse_call call);

/* The same of free. */
PS_NORETURN void ps_misuse_free(const struct ps_span *span, const void *block);

/* The link of a free block leads elsewhere: the block came up once more after it had been taken, or
 * was written to since it was freed. block_bytes: of its class. */
PS_NORETURN void ps_misuse_link(const void *block, size_t block_bytes);

#define PS_MISUSE_OVERRUN "write behind the end of"
#define PS_MISUSE_FAMILY "free by another family of functions than made"
#define PS_MISUSE_LATE_WRITE "write after free to"

/* Anything else; what: the words before the address. */
PS_NORETURN void ps_misuse(const char *what, const struct ps_span *span, const void *block);

#endif
