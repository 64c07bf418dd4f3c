/* SPDX-License-Identifier: MIT */
/*
 * See exited.h. Lock: late_lock, protects the shared heap.
 */
#include "pools/engine/heap/exited.h"

#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/os/lock.h"

#include <errno.h>

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
        ps_store_relaxed(&heap->x_state, (uint32_t)PS_HEAP_SHARED); /* relaxed: fork, census */
        late_heap = heap;
    }
    return heap;
}

static void *unlock_after(void *block) {
    ps_lock_release(&late_lock);
    return block;
}

PS_COLD void *ps_exited_alloc(size_t bytes) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.alloc(NULL, bytes);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.alloc(heap, bytes)) : NULL;
}

PS_COLD void *ps_exited_zalloc(size_t bytes) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.zalloc(NULL, bytes);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.zalloc(heap, bytes)) : NULL;
}

PS_COLD void *ps_exited_alloc_aligned(size_t bytes, size_t align) {
    if (ps_thread.is_exiting && bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_mode.entry.alloc_aligned(NULL, bytes, align);
    }
    struct ps_heap *heap = lock_heap();
    return heap != NULL ? unlock_after(ps_mode.entry.alloc_aligned(heap, bytes, align)) : NULL;
}

const struct ps_heap *ps_exited_fork_child(void) {
    ps_lock_fork_child(&late_lock);
    return late_heap;
}
