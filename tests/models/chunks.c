/* SPDX-License-Identifier: MIT */
/*
 * See chunks.h. Replaces pools/common and fatal.c.
 */
#include "chunks.h"

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"

#include <explore.h>

#define CHUNK_BYTES 768
#define CHUNKS 3

bool ps_poison_is_on;

static _Alignas(4096) char memory[CHUNKS][CHUNK_BYTES];
static uint32_t x_is_out[CHUNKS];

unsigned chunks_out(void) {
    unsigned count = 0;
    for (size_t i = 0; i < CHUNKS; i++) {
        count += x_is_out[i];
    }
    return count;
}

uint32_t ps_x_debug = PS_DEBUG_IS_READ; /* nothing: no pool of a model is listed */

uint32_t ps_debug_read(void) { return ps_x_debug; }

bool ps_registry_enter(struct ps_chunks *chunks, void *pool, const struct ps_family *family) {
    (void)pool;
    (void)family;
    return chunks->record == NULL;
}

void ps_registry_leave(struct ps_chunks *chunks) { chunks->record = NULL; }

void ps_debug_misuse(const char *what, const void *pointer, const char *pool) {
    (void)pointer, (void)pool;
    explore_fail(what);
}

void ps_check_failed(const char *text) { explore_fail(text); }

void ps_chunks_init(struct ps_chunks *chunks, const struct ps_chunk_options *options,
                    const char *family, size_t first_bytes, size_t max_bytes) {
    (void)options, (void)family;
    *chunks = (struct ps_chunks){.next_bytes = first_bytes, .max_bytes = max_bytes};
}

/* By the owner only, so that which chunk it is does not depend on the order; none is reused. */
void *ps_chunk_take(struct ps_chunks *chunks, size_t least, size_t align, size_t *bytes) {
    (void)chunks, (void)align;
    static size_t taken;
    EXPLORE_ASSERT(taken < CHUNKS && least <= CHUNK_BYTES);
    *bytes = CHUNK_BYTES;
    x_is_out[taken] = 1;
    return memory[taken++];
}

void *ps_chunk_take_exact(struct ps_chunks *chunks, size_t bytes, size_t align) {
    return ps_chunk_take(chunks, bytes, align, &bytes);
}

void ps_chunk_give(struct ps_chunks *chunks, void *chunk, size_t bytes) {
    (void)chunks;
    size_t index = (size_t)((char *)chunk - memory[0]) / CHUNK_BYTES;
    EXPLORE_ASSERT(x_is_out[index] == 1 && bytes <= CHUNK_BYTES);
    x_is_out[index] = 0;
    explore_use(chunk, CHUNK_BYTES);
    explore_kill(chunk, CHUNK_BYTES);
}
