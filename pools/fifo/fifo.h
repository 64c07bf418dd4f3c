/* SPDX-License-Identifier: MIT */
/*
 * The internals of a fifo. Owns no state. Callers: fifo.c, chunks.c, check.c of this folder. No
 * locks.
 *
 *   chunks.total_bytes == sum of chunk->bytes over: home, the ring `all`, the list `spares`
 *   spare_bytes == sum of chunk->bytes over `spares`
 *   all: every chunk with a live block, the current one, never home
 *   home is current, has a live block, or is unused until it becomes current again
 */
#ifndef PS_FIFO_FIFO_H
#define PS_FIFO_FIFO_H

#include "pools/common/canary.h"
#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/fifo.h>

struct fifo {
    struct ps_fifo hot; /* first: the address is that of the public struct */
    struct ps_chunks chunks;
    struct ps_fifo_chunk all; /* head of the ring of chunks but home */
    struct ps_fifo_chunk *spares;
    struct ps_fifo_chunk *home; /* the chunk that the fifo lives in */
    size_t spare_bytes;
    size_t spare_max_bytes;
    size_t align_max;    /* alignment of every chunk */
    size_t prefix_bytes; /* in front of a block: struct ps_canary in checked mode, else 0 */
    size_t tail_bytes;   /* after it, at least: checked mode without malloc, else 0 */
    void *owner;         /* checked mode: a mark of the thread that may use it */
    bool is_malloc;
    bool is_dead;
};

static inline struct fifo *fifo_of(struct ps_fifo *fifo) { return (struct fifo *)fifo; }

static inline bool is_checked(const struct fifo *fifo) { return fifo->prefix_bytes != 0; }

/* check.c. Each is called in checked mode only. */
void ps_fifo_check_thread(const struct fifo *fifo);
void ps_fifo_check_adopt(struct fifo *fifo);
/* Bytes of a live block of this fifo, whose canaries are whole; anything else is misuse. */
size_t ps_fifo_check_live(struct fifo *fifo, const void *block);
/* A new block after `top`, the end of the one before it. Returns the top after the block. */
char *ps_fifo_check_born(const struct fifo *fifo, char *top, char *block, size_t bytes);
/* The top after the block now. */
char *ps_fifo_check_top(void *block);
/* is_newest: of its chunk. */
void ps_fifo_check_resized(const struct fifo *fifo, char *block, size_t new_bytes, bool is_newest);
void ps_fifo_check_freed(void *block, size_t bytes);
/* The canaries of all blocks. */
void ps_fifo_check_all(const struct fifo *fifo);

/* chunks.c. A chunk that fits a block of `bytes`, of the usual length, not linked: a spare one or a
 * new one. NULL and ENOMEM. */
struct ps_fifo_chunk *ps_fifo_chunk_usual(struct fifo *fifo, size_t bytes, size_t align);
/* The same, for one large block. */
struct ps_fifo_chunk *ps_fifo_chunk_large(struct fifo *fifo, size_t bytes, size_t align);
/* A chunk without live blocks, linked nowhere: caches it, or returns it. Never home. */
void ps_fifo_chunk_keep(struct fifo *fifo, struct ps_fifo_chunk *chunk);
void ps_fifo_chunk_give(struct fifo *fifo, struct ps_fifo_chunk *chunk);
void ps_fifo_chunk_trim(struct fifo *fifo, size_t keep_bytes);
/* Makes a chunk of what the source gave; the first block lies after `header_bytes`. */
struct ps_fifo_chunk *ps_fifo_chunk_format(struct fifo *fifo, void *base, size_t bytes,
                                           size_t offset);
void ps_fifo_chunk_link(struct fifo *fifo, struct ps_fifo_chunk *chunk);
void ps_fifo_chunk_unlink(struct ps_fifo_chunk *chunk);

static inline bool chunk_is_linked(const struct ps_fifo_chunk *chunk) {
    return chunk->next != NULL;
}

/* The place of a block between `top` and `end`; NULL if it does not fit. In checked mode `end` is a
 * multiple of 16, as a record's end is. */
static inline char *ps_fifo_place(const struct fifo *fifo, char *top, const char *end, size_t bytes,
                                  size_t align) {
    size_t room = (size_t)(end - top);
    size_t before = fifo->prefix_bytes;
    before += -((uintptr_t)top + before) & (align - 1);
    return before <= room && bytes + fifo->tail_bytes <= room - before ? top + before : NULL;
}

/* The chunk of a block. */
static inline struct ps_fifo_chunk *chunk_of(const struct fifo *fifo, const void *block) {
    uintptr_t address = (uintptr_t)block;
    return (struct ps_fifo_chunk *)(fifo->is_malloc ? address - fifo->prefix_bytes -
                                                          sizeof(struct ps_fifo_chunk)
                                                    : (address - 1) & ~(fifo->align_max - 1));
}

#endif
