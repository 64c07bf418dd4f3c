/* SPDX-License-Identifier: MIT */
/*
 * Links of free blocks, and reports of the misuse that they and the account of a span reveal.
 *
 * The first word of a free block leads to the next block of its list. The program may still
 * read and write that word by mistake, so a link is stored encoded and validated before it is
 * followed.
 *
 *   - The stored word is the address xor the salt of the list: 64 random bits beside its head,
 *     renewed whenever the span is reset. The list of a span, its stash and the batches that other
 *     threads collect for it share one salt.
 *   - A list ends with an odd address in the granule of its blocks, so that each link, including
 *     the last one, is near its block: the two differ in the low 16 bits only. Links of a span of
 *     several granules may lead to another one.
 *   - Taking a block off a list clears its link, moving it to another list stores the link anew,
 *     and a reset changes the salt. So a block whose first word decodes to a near link is on a
 *     list, and a free of it is a double free, whatever happened in between and on whichever
 *     thread, unless the program copied the word: heap/confirm.h tells. Any other word passes with
 *     a probability of 2^-48, and the link must then also lead to a block.
 *   - An overwritten word decodes to a far address, with the same probability of error.
 *
 * (The check that a link is near follows the secure builds of snmalloc and mimalloc; encoding with
 * a secret follows glibc's safe linking. Multiplying the salt by the block's address was tried and
 * lost: three more instructions in each free and each malloc, and the salt is as easy to compute
 * from two known addresses.)
 */
#ifndef PS_SMALL_LINK_H
#define PS_SMALL_LINK_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_span;

/* End of the list of no span. */
#define PS_LINK_END ((void *)1)

/* Draws the secret. Called once, before the first span. */
void ps_link_start(void);

/* A salt that no list has had before. Any thread. */
uintptr_t ps_link_new_salt(void);

/* Random bits for an address, constant in this process. */
uint64_t ps_link_random_of(const void *address);

PS_INLINE bool ps_link_is_end(const void *link) { return ((uintptr_t)link & 1) != 0; }

/* A link as it is stored, and the word of a block that is its place. */
PS_INLINE uintptr_t ps_link_stored(const void *link, uintptr_t salt) {
    return (uintptr_t)link ^ salt;
}
PS_INLINE uintptr_t ps_link_word(const void *block) { return *(const uintptr_t *)block; }
PS_INLINE void ps_link_store(void *block, uintptr_t stored) { *(uintptr_t *)block = stored; }

/* Stores what follows `block` on its list. */
PS_INLINE void ps_link_write(void *block, const void *link, uintptr_t salt) {
    ps_link_store(block, ps_link_stored(link, salt));
}

/* The decoded link of `block`. */
PS_INLINE void *ps_link_of(const void *block, uintptr_t salt) {
    return (void *)(ps_link_word(block) ^ salt);
}

/* True for every link within a granule that was not overwritten. */
PS_INLINE bool ps_link_is_near(const void *block, const void *link) {
    return ((uintptr_t)link ^ (uintptr_t)block) < PS_GRANULE_BYTES;
}

/* Random bits, drawn by ps_link_start. */
extern PS_HIDDEN uintptr_t ps_link_mark_salt;

/* The first word of a block in a front (front/front.h), which is on no list. Any other word passes
 * with a probability of 2^-64. */
PS_INLINE uintptr_t ps_link_mark(const void *block) { return (uintptr_t)block ^ ps_link_mark_salt; }
PS_INLINE bool ps_link_is_marked(const void *block) {
    return ps_link_word(block) == ps_link_mark(block);
}

/* Clears the link of a block that leaves its list. */
PS_INLINE void ps_link_clear(void *block) { *(uintptr_t *)block = 0; }

/* ---- misuse ---- */

/*
 * Reports: one line on stderr, then abort. Called from the paths that detect misuse. No locks, no
 * allocation.
 *
 *   poolshim: double free of 0x7f52a0010040 (size class 64, thread 3141)
 *
 * The size class is that of the block's span; the thread is the detecting one, by the system's
 * number.
 */

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
