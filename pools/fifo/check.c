/* SPDX-License-Identifier: MIT */
/*
 * Checked mode of fifos: each block has canaries, whose record says, too, whether it is live and
 * how long it is; memory that no block has is poisoned, and one thread owns the fifo. With
 * PS_DEBUG=malloc there is a record, but no canary after the block, since tools see its end.
 * Callers: fifo.c. No locks.
 */
#include "pools/fifo/fifo.h"

#include <pthread.h>
#include <string.h>

#define FILL_FREED 0xdd

static struct ps_canary_pool pool_of(const struct fifo *fifo) {
    return (struct ps_canary_pool){fifo->chunks.family, fifo->chunks.name};
}

void ps_fifo_check_adopt(struct fifo *fifo) { fifo->owner = (void *)pthread_self(); }

void ps_fifo_check_thread(const struct fifo *fifo) {
    if (fifo->owner != (void *)pthread_self()) {
        ps_debug_misuse("used by a thread that does not own it: fifo", fifo, fifo->chunks.name);
    }
}

size_t ps_fifo_check_live(struct fifo *fifo, const void *block) {
    if (!ps_fifo_owns(&fifo->hot, block)) {
        ps_debug_misuse("freed or resized, but not of this pool: block", block, fifo->chunks.name);
    }
    if (!ps_canary_is_block(block)) {
        ps_fifo_check_all(fifo); /* a write in front of the block has its own line */
        ps_debug_misuse("freed or resized, but no block:", block, fifo->chunks.name);
    }
    if (ps_canary_is_freed(block)) {
        ps_debug_misuse("double free of block", block, fifo->chunks.name);
    }
    ps_canary_verify(block, pool_of(fifo));
    return ps_canary_bytes(block);
}

static char *end_for(const struct fifo *fifo, char *block, size_t bytes) {
    return fifo->is_malloc ? block + bytes : ps_canary_end_for(block, bytes);
}

char *ps_fifo_check_top(void *block) { return ps_canary_end(block); }

char *ps_fifo_check_born(const struct fifo *fifo, char *top, char *block, size_t bytes) {
    char *end = end_for(fifo, block, bytes);
    ps_canary_write(top, block, bytes, end);
    return end;
}

void ps_fifo_check_resized(const struct fifo *fifo, char *block, size_t new_bytes, bool is_newest) {
    char *old_end = ps_canary_end(block);
    char *end = is_newest ? end_for(fifo, block, new_bytes) : old_end;
    ps_canary_resize(block, new_bytes, end);
    if (end < old_end) {
        ps_poison(end, (size_t)(old_end - end));
    }
}

void ps_fifo_check_freed(void *block, size_t bytes) {
    ps_canary_free(block);
    memset(block, FILL_FREED, bytes);
    ps_poison(block, bytes);
}

void ps_fifo_check_all(const struct fifo *fifo) {
    struct ps_canary_pool pool = pool_of(fifo);
    ps_canary_verify_range(fifo->home->start, fifo->home->top, pool);
    for (const struct ps_fifo_chunk *chunk = fifo->all.next; chunk != &fifo->all;
         chunk = chunk->next) {
        ps_canary_verify_range(chunk->start, chunk->top, pool);
    }
}

void ps_fifo_check(const struct ps_fifo *given) {
    const struct fifo *fifo = (const struct fifo *)given;
    if (is_checked(fifo)) {
        ps_fifo_check_thread(fifo);
        ps_fifo_check_all(fifo);
    }
}
