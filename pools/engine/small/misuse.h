/* SPDX-License-Identifier: MIT */
/*
 * Reports of misuse: one line on stderr, then abort. Called from the paths that detect it. No
 * locks, no allocation.
 *
 *   poolshim: double free of 0x7f52a0010040 (size class 64, thread 3141)
 *
 * The size class is that of the block's span; the thread is the detecting one, by the system's
 * number.
 */
#ifndef PS_SMALL_MISUSE_H
#define PS_SMALL_MISUSE_H

#include "pools/engine/small/span.h"

/* The call that was given the address. */
enum ps_misuse_call { PS_MISUSE_FREE, PS_MISUSE_REALLOC, PS_MISUSE_SIZE };

/* The state of the address, which is not a live block. */
enum ps_misuse_state {
    PS_MISUSE_OF_FREE,
    PS_MISUSE_OF_INTERIOR,
    PS_MISUSE_OF_FOREIGN,
    PS_MISUSE_STATES
};

/* "free of interior pointer" */
const char *ps_misuse_words(enum ps_misuse_call call, enum ps_misuse_state state);

/* Reports a call on an address within a span that is not a live block: it is inside of a block, or
 * the block is free. */
PS_NORETURN void ps_misuse_met(const struct ps_span *span, const void *block,
                               enum ps_misuse_call call);

/* As ps_misuse_met, for free. */
PS_NORETURN void ps_misuse_free(const struct ps_span *span, const void *block);

/* Reports an invalid link of a free block: the block was granted once more after it had been taken,
 * or was written to after it was freed. block_bytes: block size of its class. */
PS_NORETURN void ps_misuse_link(const void *block, size_t block_bytes);

#define PS_MISUSE_OVERRUN "write behind the end of"
#define PS_MISUSE_FAMILY "free by another family of functions than made"
#define PS_MISUSE_LATE_WRITE "write after free to"

/* Reports any other misuse; what: the words before the address. */
PS_NORETURN void ps_misuse(const char *what, const struct ps_span *span, const void *block);

#endif
