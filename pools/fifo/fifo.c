/* SPDX-License-Identifier: MIT */
/*
 * See poolshim/fifo.h: all but the fast path. Owns struct fifo. Callers: the program. Calls
 * chunks.c and check.c. No locks: one thread at a time per fifo.
 */
#include "pools/fifo/fifo.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <string.h>

#define CHUNK_MIN_BYTES ((size_t)4096)
#define CHUNK_MAX_BYTES ((size_t)64 << 10)
#define SPARE_BYTES ((size_t)256 << 10)

/* Above this, sizes are refused: so later additions to them cannot overflow. */
#define BLOCK_MAX_BYTES ((size_t)PTRDIFF_MAX - 2 * CHUNK_MAX_BYTES)

/* No room, so that the fast path calls ps_fifo_alloc_slow each time. */
static void close_hit_path(struct fifo *fifo) {
    fifo->hot.top = (char *)fifo;
    fifo->hot.end = (char *)fifo;
}

/* From where the newest block of the current chunk ends to its end, in the field of the fast path.
 * In checked mode it is in the chunk. */
static void set_top(struct fifo *fifo, struct ps_fifo_chunk *chunk, char *top) {
    if (chunk == fifo->hot.current && !is_checked(fifo)) {
        fifo->hot.top = top;
    } else {
        chunk->top = top;
    }
}

static char *top_of(const struct fifo *fifo, const struct ps_fifo_chunk *chunk) {
    return chunk == fifo->hot.current && !is_checked(fifo) ? fifo->hot.top : chunk->top;
}

static void set_current(struct fifo *fifo, struct ps_fifo_chunk *chunk) {
    fifo->hot.current = chunk;
    if (!is_checked(fifo)) {
        fifo->hot.top = chunk->top;
        fifo->hot.end = chunk->end;
    }
}

/* Blocks that outlive the fifo prevent its end: a fifo that remains is the leak. */
static const struct ps_family family = {.name = "fifo", .must_end = true};

bool ps_fifo_enlist(struct ps_fifo *fifo) {
    return ps_registry_enter(&fifo_of(fifo)->chunks, fifo, &family);
}

struct ps_fifo *ps_fifo_create(const struct ps_fifo_options *given) {
    struct ps_fifo_options options = {0};
    if (given != NULL) {
        options = *given;
    }
    bool is_malloc = ps_debug_is_malloc();
    if (is_malloc) {
        options.chunks.source = ps_source_malloc();
    }
    size_t max = options.chunks.max_bytes != 0 ? options.chunks.max_bytes : CHUNK_MAX_BYTES;
    max = ps_min(ps_max(max, CHUNK_MIN_BYTES), CHUNK_MAX_BYTES);
    max = (size_t)1 << ps_log2(max);
    options.chunks.max_bytes = max;

    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options.chunks, "fifo", max, max);
    size_t least = sizeof(struct ps_fifo_chunk) + sizeof(struct fifo);
    size_t bytes;
    void *base = ps_chunk_take(&chunks, ps_round_up(least, PS_ALIGN_DEFAULT), max, &bytes);
    if (base == NULL) {
        return NULL;
    }
    struct fifo *fifo = (void *)((struct ps_fifo_chunk *)base + 1);
    *fifo = (struct fifo){
        .chunks = chunks,
        .spare_max_bytes = options.spare_bytes != 0 ? options.spare_bytes : SPARE_BYTES,
        .align_max = max,
        .prefix_bytes = is_malloc || ps_debug_is_check() ? PS_CANARY_HEAD : 0,
        .tail_bytes = !is_malloc && ps_debug_is_check() ? PS_CANARY_TAIL : 0,
        .is_malloc = is_malloc,
    };
    fifo->all.previous = &fifo->all;
    fifo->all.next = &fifo->all;
    fifo->home = base;
    *fifo->home = (struct ps_fifo_chunk){
        .start = (char *)ps_round_up((uintptr_t)(fifo + 1), PS_ALIGN_DEFAULT),
        .end = (char *)ps_round_down((uintptr_t)base + bytes, PS_ALIGN_DEFAULT),
        .bytes = bytes,
        .base = base,
    };
    fifo->home->top = fifo->home->start;
    close_hit_path(fifo);
    set_current(fifo, fifo->home);
    if (is_checked(fifo)) {
        ps_fifo_check_adopt(fifo);
        ps_poison(fifo->home->start, (size_t)(fifo->home->end - fifo->home->start));
    } else {
        fifo->hot.chunk_mask = ~(uintptr_t)(max - 1);
    }
    ps_registry_note_made(&fifo->chunks, fifo, &family);
    return &fifo->hot;
}

/* Returns the chunk with the fifo's record, as the last one. */
static void return_home(struct fifo *fifo) {
    ps_registry_note_ended(&fifo->chunks);
    struct ps_chunks chunks = fifo->chunks;
    struct ps_fifo_chunk *home = fifo->home;
    ps_chunk_give(&chunks, home->base, home->bytes);
}

static void end_if_empty(struct fifo *fifo) {
    if (fifo->all.next == &fifo->all && fifo->home->live_count == 0) {
        return_home(fifo);
    }
}

void ps_fifo_destroy(struct ps_fifo *given) {
    struct fifo *fifo = fifo_of(given);
    if (fifo == NULL) {
        return;
    }
    if (is_checked(fifo)) {
        ps_fifo_check_thread(fifo);
    }
    if (fifo->is_dead) {
        ps_debug_misuse("fifo destroyed twice", fifo, fifo->chunks.name);
    }
    ps_fifo_check(given);
    struct ps_fifo_chunk *current = fifo->hot.current;
    current->top = top_of(fifo, current);
    fifo->is_dead = true;
    fifo->hot.current = NULL;
    close_hit_path(fifo);
    ps_fifo_chunk_trim(fifo, 0);
    if (current->live_count == 0 && current != fifo->home) {
        ps_fifo_chunk_unlink(current);
        ps_fifo_chunk_give(fifo, current);
    }
    end_if_empty(fifo);
}

void ps_fifo_destroy_now(struct ps_fifo *given) {
    struct fifo *fifo = fifo_of(given);
    if (fifo == NULL) {
        return;
    }
    ps_fifo_check(given);
    ps_fifo_chunk_trim(fifo, 0);
    while (fifo->all.next != &fifo->all) {
        struct ps_fifo_chunk *chunk = fifo->all.next;
        ps_fifo_chunk_unlink(chunk);
        ps_fifo_chunk_give(fifo, chunk);
    }
    return_home(fifo);
}

/* A chunk has lost its last block. */
void ps_fifo_drained(struct ps_fifo *given, struct ps_fifo_chunk *chunk) {
    struct fifo *fifo = fifo_of(given);
    if (chunk == fifo->hot.current) {
        set_top(fifo, chunk, chunk->start);
        return;
    }
    if (chunk != fifo->home) {
        ps_fifo_chunk_unlink(chunk);
        if (fifo->is_dead) {
            ps_fifo_chunk_give(fifo, chunk);
        } else {
            ps_fifo_chunk_keep(fifo, chunk);
        }
    }
    if (fifo->is_dead) {
        end_if_empty(fifo);
    }
}

/* Puts the block into the chunk, where it fits. */
static void *cut(struct fifo *fifo, struct ps_fifo_chunk *chunk, size_t bytes, size_t align) {
    char *top = top_of(fifo, chunk);
    char *block = ps_fifo_place(fifo, top, chunk->end, bytes, align);
    if (block != NULL) {
        chunk->live_count++;
        char *new_top =
            is_checked(fifo) ? ps_fifo_check_born(fifo, top, block, bytes) : block + bytes;
        set_top(fifo, chunk, new_top);
    }
    return block;
}

/* The current chunk is too full: another one becomes current, or the block gets one of its own. */
static void *cut_elsewhere(struct fifo *fifo, size_t bytes, size_t align) {
    size_t with_slack = bytes + (align > PS_ALIGN_DEFAULT ? align : 0);
    bool is_large = fifo->is_malloc || with_slack > fifo->align_max / 4;
    struct ps_fifo_chunk *chunk = is_large ? ps_fifo_chunk_large(fifo, bytes, align)
                                           : ps_fifo_chunk_usual(fifo, bytes, align);
    if (chunk == NULL) {
        return NULL;
    }
    if (chunk != fifo->home) {
        ps_fifo_chunk_link(fifo, chunk);
    }
    if (!is_large) {
        struct ps_fifo_chunk *old = fifo->hot.current;
        old->top = top_of(fifo, old);
        set_current(fifo, chunk);
        if (old->live_count == 0 && old != fifo->home) {
            ps_fifo_chunk_unlink(old);
            ps_fifo_chunk_keep(fifo, old);
        }
    }
    return cut(fifo, chunk, bytes, align);
}

void *ps_fifo_alloc_slow(struct ps_fifo *given, size_t bytes, size_t align) {
    struct fifo *fifo = fifo_of(given);
    if (is_checked(fifo)) {
        ps_fifo_check_thread(fifo);
    }
    if (fifo->is_dead) {
        ps_debug_misuse("block taken from a destroyed fifo", fifo, fifo->chunks.name);
    }
    if (!ps_is_power_of_two(align) || align > fifo->align_max) {
        errno = EINVAL;
        return NULL;
    }
    if (bytes > BLOCK_MAX_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    if (is_checked(fifo)) {
        align = ps_max(align, PS_ALIGN_DEFAULT);
    }
    size_t least = ps_max(bytes, 1);
    void *block = fifo->is_malloc ? NULL : cut(fifo, fifo->hot.current, least, align);
    return block != NULL ? block : cut_elsewhere(fifo, least, align);
}

void *ps_fifo_zalloc(struct ps_fifo *fifo, size_t bytes) {
    void *block = ps_fifo_alloc(fifo, bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

/* NULL, or checked mode. */
void ps_fifo_free_slow(struct ps_fifo *given, void *block) {
    struct fifo *fifo = fifo_of(given);
    if (block == NULL) {
        return;
    }
    ps_fifo_check_thread(fifo);
    size_t bytes = ps_fifo_check_live(fifo, block);
    struct ps_fifo_chunk *chunk = chunk_of(fifo, block);
    ps_fifo_check_freed(block, bytes);
    if (--chunk->live_count == 0) {
        ps_fifo_drained(given, chunk);
    }
}

/* True when the block could be resized where it is. */
static bool resize_in_place(struct fifo *fifo, char *block, size_t old_bytes, size_t new_bytes) {
    struct ps_fifo_chunk *chunk = chunk_of(fifo, block);
    char *old_end = is_checked(fifo) ? ps_fifo_check_top(block) : block + old_bytes;
    bool is_newest = old_end == top_of(fifo, chunk);
    size_t room = (size_t)(chunk->end - block);
    bool is_fitting =
        new_bytes <= old_bytes || (is_newest && !fifo->is_malloc && room >= fifo->tail_bytes &&
                                   new_bytes <= room - fifo->tail_bytes);
    if (is_fitting && is_checked(fifo)) {
        ps_fifo_check_resized(fifo, block, new_bytes, is_newest);
    }
    if (is_fitting && is_newest) {
        set_top(fifo, chunk, is_checked(fifo) ? ps_fifo_check_top(block) : block + new_bytes);
    }
    return is_fitting;
}

void *ps_fifo_realloc_aligned(struct ps_fifo *given, void *block, size_t old_bytes,
                              size_t new_bytes, size_t align) {
    struct fifo *fifo = fifo_of(given);
    if (block == NULL || !ps_is_power_of_two(align)) {
        return ps_fifo_alloc_aligned(given, new_bytes, align);
    }
    size_t old_least = ps_max(old_bytes, 1);
    size_t new_least = ps_max(new_bytes, 1);
    if (is_checked(fifo)) {
        ps_fifo_check_thread(fifo);
        if (ps_fifo_check_live(fifo, block) != old_least) {
            ps_debug_misuse("old size is wrong of block", block, fifo->chunks.name);
        }
    }
    if (((uintptr_t)block & (align - 1)) == 0 &&
        resize_in_place(fifo, block, old_least, new_least)) {
        return block;
    }
    void *moved = ps_fifo_alloc_aligned(given, new_bytes, align);
    if (moved != NULL) {
        memcpy(moved, block, ps_min(old_bytes, new_bytes));
        ps_fifo_free(given, block);
    }
    return moved;
}

/* Continues in the chunk of the fifo's record where the current one has no block: it is then a
 * spare one. */
static void go_home(struct fifo *fifo, size_t keep_bytes) {
    struct ps_fifo_chunk *old = fifo->hot.current;
    bool is_kept = fifo->spare_bytes <= keep_bytes && old->bytes <= keep_bytes;
    if (!is_kept && old != fifo->home && old->live_count == 0 && fifo->home->live_count == 0) {
        fifo->home->top = fifo->home->start;
        set_current(fifo, fifo->home);
        ps_fifo_chunk_unlink(old);
        ps_fifo_chunk_keep(fifo, old);
    }
}

size_t ps_fifo_trim_to(struct ps_fifo *given, size_t keep_bytes) {
    struct fifo *fifo = fifo_of(given);
    size_t before_bytes = fifo->chunks.total_bytes;
    ps_fifo_check(given);
    go_home(fifo, keep_bytes);
    ps_fifo_chunk_trim(fifo, keep_bytes);
    return before_bytes - fifo->chunks.total_bytes;
}

size_t ps_fifo_trim(struct ps_fifo *fifo, size_t keep_bytes) {
    return ps_fifo_trim_to(fifo, keep_bytes);
}

static bool is_inside(const struct ps_fifo_chunk *chunk, const char *pointer) {
    return pointer >= (const char *)chunk && pointer < chunk->end;
}

bool ps_fifo_owns(const struct ps_fifo *given, const void *pointer) {
    const struct fifo *fifo = (const struct fifo *)given;
    bool is_found = is_inside(fifo->home, pointer);
    for (const struct ps_fifo_chunk *chunk = fifo->all.next; chunk != &fifo->all && !is_found;
         chunk = chunk->next) {
        is_found = is_inside(chunk, pointer);
    }
    return is_found;
}

size_t ps_fifo_align_max(const struct ps_fifo *fifo) {
    return ((const struct fifo *)fifo)->align_max;
}

const char *ps_fifo_name(const struct ps_fifo *fifo) {
    return ((const struct fifo *)fifo)->chunks.name;
}

void ps_fifo_adopt(struct ps_fifo *fifo) { ps_fifo_check_adopt(fifo_of(fifo)); }

static void add_chunk(const struct fifo *fifo, const struct ps_fifo_chunk *chunk,
                      struct ps_fifo_stats *stats) {
    stats->live_count += chunk->live_count;
    if (chunk->live_count != 0) {
        stats->used_bytes += (size_t)(top_of(fifo, chunk) - chunk->start);
    }
}

void ps_fifo_stats(const struct ps_fifo *given, struct ps_fifo_stats *stats) {
    const struct fifo *fifo = (const struct fifo *)given;
    *stats = (struct ps_fifo_stats){
        .chunk_bytes = fifo->chunks.total_bytes,
        .chunk_count = fifo->chunks.chunk_count,
        .spare_bytes = fifo->spare_bytes,
    };
    add_chunk(fifo, fifo->home, stats);
    for (const struct ps_fifo_chunk *chunk = fifo->all.next; chunk != &fifo->all;
         chunk = chunk->next) {
        add_chunk(fifo, chunk, stats);
    }
}
