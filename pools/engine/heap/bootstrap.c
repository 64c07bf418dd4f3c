/* SPDX-License-Identifier: MIT */
/*
 * See bootstrap.h. The first chunk is static, others are mapped by raw system calls.
 */
#include "pools/engine/heap/bootstrap.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"

#define CHUNK_BYTES ((size_t)65536)
#define CHUNK_LIMIT 32

/* Bytes [base, base + used) are allocated. */
struct chunk {
    uintptr_t base;
    size_t bytes;
    size_t used;
};

static PS_SPARSE PS_ALIGNED(PS_BOOTSTRAP_ALIGN)
char first_chunk[CHUNK_BYTES];
static PS_SPARSE struct chunk chunks[CHUNK_LIMIT];
static size_t chunk_count;

/* Equals the chunk's address only after this word has been relocated. */
void *volatile ps_bootstrap_probe = first_chunk;

bool ps_bootstrap_is_over(void) { return PS_LIKELY(ps_bootstrap_probe == (void *)first_chunk); }

static struct chunk *add_chunk(void *base, size_t bytes) {
    chunks[chunk_count] = (struct chunk){.base = (uintptr_t)base, .bytes = bytes};
    return &chunks[chunk_count++];
}

static struct chunk *chunk_with_room(size_t bytes) {
    if (chunk_count == 0) {
        (void)add_chunk(first_chunk, CHUNK_BYTES);
    }
    struct chunk *chunk = &chunks[chunk_count - 1];
    if (chunk->bytes - chunk->used >= bytes) {
        return chunk;
    }
    size_t chunk_bytes = ps_round_up(ps_max(bytes, CHUNK_BYTES), CHUNK_BYTES);
    void *base =
        chunk_count < CHUNK_LIMIT && chunk_bytes >= bytes ? ps_os_reserve(chunk_bytes, 1) : NULL;
    return base != NULL ? add_chunk(base, chunk_bytes) : NULL;
}

/* Stores the size in front of the block. */
void *ps_bootstrap_alloc(size_t bytes, size_t align) {
    align = ps_max(align, PS_BOOTSTRAP_ALIGN);
    size_t worst = bytes + align + sizeof(size_t);
    struct chunk *chunk = worst > bytes ? chunk_with_room(worst) : NULL;
    if (chunk == NULL) {
        return NULL;
    }
    uintptr_t block = ps_round_up(chunk->base + chunk->used + sizeof(size_t), align);
    ((size_t *)block)[-1] = bytes;
    chunk->used = block + bytes - chunk->base;
    return (void *)block;
}

void *ps_bootstrap_resize(const void *block, size_t bytes) {
    char *copy = ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    size_t kept = ps_min(ps_bootstrap_usable(block), bytes);
    for (size_t i = 0; copy != NULL && i < kept; i++) {
        ((volatile char *)copy)[i] = ((const char *)block)[i]; /* volatile: no call of memcpy */
    }
    return copy;
}

size_t ps_bootstrap_usable(const void *block) {
    for (size_t i = 0; i < chunk_count; i++) {
        if ((uintptr_t)block - chunks[i].base < chunks[i].used) {
            return ((const size_t *)block)[-1];
        }
    }
    return 0;
}

void ps_bootstrap_free(const void *block) {
    if (ps_bootstrap_usable(block) == 0) {
        ps_fatal_address("free of foreign pointer", block);
    }
}
