/* SPDX-License-Identifier: MIT */
/*
 * See detached.h. Before relocation pointers to functions are invalid, so the bootstrap allocator
 * is called by name. Afterwards the engine is started first; then the mode's rows can be used.
 * Lock: late_lock, protects the heap that calls after thread exit share.
 */
#include "pools/engine/heap/detached.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#include <errno.h>

/* ---- before relocation: the first chunk is static, others are mapped by raw system calls ---- */

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

/* ---- after thread exit ---- */

PS_UNDO_LOG(late_undo, 1);
static struct ps_lock late_lock = PS_LOCK_INIT_UNDO(PS_RANK_EXITED, &late_undo);
static struct ps_heap *late_heap;

/* Returns the shared heap, locked. NULL with errno ENOMEM, unlocked, when there is none. */
static struct ps_heap *lock_heap(void) {
    if (!ps_thread.is_exiting) { /* no memory for the thread's own heap */
        errno = ENOMEM;
        return NULL;
    }
    ps_lock_acquire(&late_lock);
    /* Changes of a heap cannot be rolled back: the child of a fork creates another one. */
    ps_undo_set(&late_undo, &late_heap, (uintptr_t)NULL);
    struct ps_heap *heap = late_heap;
    if (heap == NULL) {
        heap = ps_heap_make();
        if (heap == NULL) {
            ps_lock_release(&late_lock);
            errno = ENOMEM;
            return NULL;
        }
        late_heap = heap;
        ps_fence_program_order(); /* for the child of a fork: see is_left_behind of registry.c */
        ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_SHARED); /* relaxed: fork, census */
    }
    return heap;
}

static void *unlock_after(void *block) {
    ps_lock_release(&late_lock);
    return block;
}

static void *exited_alloc(size_t bytes) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.alloc(NULL, bytes);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.alloc(heap, bytes)) : NULL;
}

static void *exited_zalloc(size_t bytes) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.zalloc(NULL, bytes);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.zalloc(heap, bytes)) : NULL;
}

static void *exited_alloc_aligned(size_t bytes, size_t align) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.alloc_aligned(NULL, bytes, align);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.alloc_aligned(heap, bytes, align)) : NULL;
}

/* ---- the entry points ---- */

bool ps_detached_has_started(void) {
    if (PS_UNLIKELY(!ps_bootstrap_is_over())) {
        return false;
    }
    if (PS_UNLIKELY(!ps_engine_has_started())) {
        ps_engine_start();
        ps_thread_enter(); /* again: the start may have made calls of the program */
    }
    return true;
}

PS_COLD void *ps_detached_alloc(size_t bytes) {
    if (!ps_detached_has_started()) {
        return ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.alloc(heap, bytes) : exited_alloc(bytes);
}

PS_COLD void *ps_detached_zalloc(size_t bytes) {
    if (!ps_detached_has_started()) {
        return ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.zalloc(heap, bytes) : exited_zalloc(bytes);
}

PS_COLD void *ps_detached_alloc_aligned(size_t bytes, size_t align) {
    if (!ps_detached_has_started()) {
        return ps_bootstrap_alloc(bytes, align);
    }
    struct ps_heap *heap = ps_heap_acquire();
    return heap != NULL ? ps_mode.entry.alloc_aligned(heap, bytes, align)
                        : exited_alloc_aligned(bytes, align);
}

PS_COLD void ps_detached_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    if (block == NULL) {
        return;
    }
    if (ps_detached_has_started()) {
        ps_mode.entry.free_block(span, block, owner_key);
    } else if (ps_bootstrap_usable(block) == 0) {
        ps_fatal_address("free of foreign pointer", block);
    }
}

PS_COLD void *ps_detached_resize(void *block, size_t bytes) {
    return ps_detached_has_started() ? ps_mode.entry.resize(block, bytes)
                                     : ps_bootstrap_resize(block, bytes);
}

PS_COLD size_t ps_detached_usable(const void *block) {
    return ps_detached_has_started() ? ps_mode.entry.usable(block) : ps_bootstrap_usable(block);
}

const struct ps_heap *ps_detached_fork_child(void) {
    ps_lock_fork_child(&late_lock);
    return late_heap;
}
