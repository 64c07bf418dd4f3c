/* SPDX-License-Identifier: MIT */
/*
 * Canaries of pools that cut blocks off a chunk, in the modes that check: bytes in front of each
 * block and after it that must not change. Callers: region, stack, fifo, ring, slice. No locks.
 *
 * A block is the middle of a record. Records begin at multiples of 16 and follow each other without
 * a gap, so that the blocks of a chunk are found from its start:
 *
 *   | alignment, rare | struct ps_canary | block | canary up to the end of the record |
 *   ^ start: a word with the distance to the block, which is the first of struct ps_canary
 *     where the block needs no alignment
 *
 * A breach ends the program with one line:
 *
 *   poolshim: write behind the end of block 0x7f5a2c0011a0 of 24 bytes, from byte 24 to byte 31, in
 *   region "requests"
 *
 * The memory around blocks is marked for sanitizers; reading it here takes the marks off and sets
 * them again.
 */
#ifndef PS_COMMON_CANARY_H
#define PS_COMMON_CANARY_H

#include "pools/common/poison.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Directly in front of a block. */
struct ps_canary {
    size_t lead;       /* from the start of the record to the block; multiple of 16 */
    size_t bytes;      /* of the block */
    size_t span;       /* of the record */
    uint64_t sum;      /* of these and the address: tells a block from any other place */
    uint64_t front[2]; /* the canary in front, which says, too, whether the block is freed */
};

enum {
    PS_CANARY_HEAD = sizeof(struct ps_canary),
    PS_CANARY_TAIL = 16, /* at least */
    PS_CANARY_COST = PS_CANARY_HEAD + PS_CANARY_TAIL
};

_Static_assert(PS_CANARY_HEAD % 16 == 0, "a block after it is aligned to 16");

/* The pool of a block, for reports. name: that of the family, if the pool has none. */
struct ps_canary_pool {
    const char *family;
    const char *name;
};

/* Bytes in which a record fits wherever they begin at a multiple of 16; multiple of 16. False: they
 * are more than PTRDIFF_MAX. */
bool ps_canary_need(size_t bytes, size_t align, size_t *need);

/* Cuts a record off the front of [*top, end), and moves *top to its end. The block is `bytes` long
 * and aligned to `align`, at least 16. NULL, and nothing has changed: it does not fit. end: a
 * multiple of 16. */
void *ps_canary_cut(char **top, const char *end, size_t bytes, size_t align);

/* Writes the record [start, end) of a block that lies PS_CANARY_HEAD or more after its start. The
 * canary after the block ends at `end`, which may be the block's own. */
void ps_canary_write(char *start, char *block, size_t bytes, char *end);

/* The end of the record of a block of so many bytes. */
char *ps_canary_end_for(char *block, size_t bytes);

/* The block of a whole record that starts here. */
static inline char *ps_canary_block_at(char *start) {
    size_t lead;
    ps_unpoison_defined(start, sizeof lead);
    __builtin_memcpy(&lead, start, sizeof lead);
    return start + lead;
}

/* Changes the size of a block, and the end of its record; the contents remain. */
void ps_canary_resize(void *block, size_t bytes, char *end);

/* True when a block begins here, freed or not. Reads PS_CANARY_HEAD bytes in front of it. */
bool ps_canary_is_block(const void *block);

/* Size and record of a block. */
size_t ps_canary_bytes(const void *block);
char *ps_canary_start(void *block);
char *ps_canary_end(void *block);

/* Notes that it is freed. */
void ps_canary_free(void *block);
bool ps_canary_is_freed(const void *block);

/* Aborts where a byte of the block's canaries has changed. */
void ps_canary_verify(const void *block, struct ps_canary_pool pool);
/* The same for the record that starts here, and ends at `to` or before. Returns its end. */
const char *ps_canary_verify_at(const char *start, const char *to, struct ps_canary_pool pool);
/* The same for all records of [from, to), in their order: so the line names the first block that
 * was left, not a later one whose record was overwritten. */
void ps_canary_verify_range(const char *from, const char *to, struct ps_canary_pool pool);
/* True when a record of [from, ...) begins or ends at `place`. All before it are whole. */
bool ps_canary_is_between(const char *from, const char *place);

/* Without a record: fills the canary [block + bytes, end), and verifies it. */
void ps_canary_fill(char *block, size_t bytes, const char *end);
void ps_canary_verify_tail(const char *block, size_t bytes, const char *end,
                           struct ps_canary_pool pool);

#endif
