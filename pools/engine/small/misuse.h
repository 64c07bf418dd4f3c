/* SPDX-License-Identifier: MIT */
/*
 * The words of reports of misuse: one line on stderr, then abort.
 *
 *   poolshim: double free of 0x7f52a0010040 (size class 64, thread 3141)
 *
 * The size class is that of the block's slab; the thread is the detecting one, by the system's
 * number. os/fatal.h writes the line. Callers: paths that detect misuse. No locks, no allocation.
 */
#ifndef PS_SMALL_MISUSE_H
#define PS_SMALL_MISUSE_H

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

#define PS_MISUSE_OVERRUN "write behind the end of"
#define PS_MISUSE_FAMILY "free by another family of functions than made"
#define PS_MISUSE_LATE_WRITE "write after free to"
#define PS_MISUSE_OVERWRITTEN "double free of, or write after free to"

#endif
