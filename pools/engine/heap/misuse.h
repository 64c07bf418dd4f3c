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
#ifndef PS_HEAP_MISUSE_H
#define PS_HEAP_MISUSE_H

#include "pools/engine/small/span.h"

/* A free that cannot be: the address is inside of a block of the span, or the block is free. */
PS_NORETURN void ps_misuse_free(const struct ps_span *span, const void *block);

/* The link of a free block leads elsewhere: the block came up once more after it had been taken, or
 * was written to since it was freed. block_bytes: of its class. */
PS_NORETURN void ps_misuse_link(const void *block, size_t block_bytes);

/* What a program does with an address. */
enum ps_misuse_call { PS_MISUSE_FREE, PS_MISUSE_REALLOC, PS_MISUSE_SIZE };

/* A call about an address at which no block starts. It lies in no span. Goes on where the address
 * is none of ours and POOLSHIM_FOREIGN says so. */
void ps_misuse_slot(const struct ps_slot *slot, const void *block, enum ps_misuse_call call);

/* realloc of, or a question about, an address within a span: aborts if that cannot be a block that
 * the program holds, as far as a glance tells. */
void ps_misuse_check(const struct ps_span *span, const void *block, enum ps_misuse_call call);

/* As ps_misuse_check, by one who knows that the block is free. */
PS_NORETURN void ps_misuse_met(const struct ps_span *span, const void *block,
                               enum ps_misuse_call call);

#define PS_MISUSE_OVERRUN "write behind the end of"
#define PS_MISUSE_FAMILY "free by another family of functions than made"
#define PS_MISUSE_LATE_WRITE "write after free to"

/* Anything else; what: the words before the address. */
PS_NORETURN void ps_misuse(const char *what, const struct ps_span *span, const void *block);

#endif
