/* SPDX-License-Identifier: MIT */
/*
 * See mimalloc.h: mi_heap_t. A heap of mimalloc's is used by the thread that created it; here any
 * thread may use any.
 */
#include "shim/mimalloc.h"

#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/mte.h"
#include "shim/entry.h"
#include "shim/tcmalloc.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

typedef struct ps_mi_heap heap_type;

/* Blocks of this size are aligned so in each mode. */
#define LARGE_BYTES ((size_t)1 << 20)
#define LARGE_ALIGN ((size_t)4096)

char ps_mi_backing[1];
static heap_type *backing(void) { return (heap_type *)ps_mi_backing; }

/* NULL: the backing heap. */
static __thread heap_type *own_default __attribute__((tls_model("initial-exec")));

/* Blocks of the backing heap that need an offset; NULL: there was none yet. */
static struct ps_partition *x_offsets;
static bool x_has_offsets; /* in any heap */

heap_type *ps_mi_default(void) { return own_default != NULL ? own_default : backing(); }

/* The partition of a heap; NULL: it is the backing heap, or none of this library: one that another
 * library has made can be read, too. */
static struct ps_partition *partition_of(const heap_type *heap) {
    struct ps_partition *partition = (struct ps_partition *)heap;
    if (heap == NULL || heap == backing() || ps_partition_end() == 0) {
        return NULL;
    }
    return ps_partition_at(partition->index) == partition ? partition : NULL;
}

/* ---- blocks with an offset ---- */

static struct ps_partition *offsets(void) {
    struct ps_partition *found = ps_load_acquire(&x_offsets); /* acquire: pairs with the next */
    if (found != NULL) {
        return found;
    }
    struct ps_partition *made = ps_partition_create("mimalloc, offsets", 0);
    /* acq_rel: makes the record visible to ps_load_acquire above, or the other one here. */
    if (made != NULL && !ps_cas_strong_acq_rel(&x_offsets, &found, made)) {
        (void)ps_partition_destroy(made);
        return found;
    }
    return made;
}

/* Pages of a large block may be untouched, so that they are not to be written. */
static void *take_zeroed(const struct ps_mi_request *request) {
    bool is_large = request->bytes >= LARGE_BYTES && request->align <= LARGE_ALIGN;
    if (request->align == 1 || is_large) {
        return ps_block_zalloc(request->bytes);
    }
    void *block = ps_block_alloc_aligned(request->bytes, request->align);
    return block != NULL ? memset(block, 0, request->bytes) : NULL;
}

void *ps_mi_take(heap_type *heap, const struct ps_mi_request *request, bool has_offset) {
    struct ps_partition *partition = partition_of(heap);
    if (partition == NULL && heap != backing()) {
        errno = EINVAL;
        return NULL;
    }
    if (has_offset) {
        ps_store_relaxed(&x_has_offsets, true); /* relaxed: before the block is known to anyone */
        partition = partition != NULL ? partition : offsets();
        if (partition == NULL) {
            return NULL;
        }
    }
    if (partition != NULL) {
        return ps_partition_alloc(partition, request->bytes, request->align, request->is_zeroed);
    }
    return request->is_zeroed ? take_zeroed(request)
                              : ps_block_alloc_aligned(request->bytes, request->align);
}

void *ps_mi_start_of(const void *block) {
    if (PS_LIKELY(!ps_load_relaxed(&x_has_offsets))) { /* relaxed: as in ps_mi_take */
        return (void *)block;
    }
    const char *address = ps_mte_strip(block);
    struct ps_slot *slot = ps_page_map_slot(address);
    const struct ps_slab *slab = ps_slab_holding(slot, address);
    if (slab != NULL && slab->extent != NULL) {
        size_t bytes = ps_slab_class(slab)->block_bytes;
        return (char *)block - (size_t)(address - slab->run.base) % bytes; /* with its tag */
    }
    /* relaxed: set before the block existed. The offset is within the first granule. */
    uint8_t kind = ps_load_relaxed(&slot->run.kind);
    bool is_run = slab == NULL && (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING);
    return is_run && ps_large_partition(slot) != NULL ? slot->run.base : (void *)block;
}

bool ps_mi_is_in(const heap_type *heap, const void *start) {
    const struct ps_partition *owner = ps_partition_of(start);
    if (heap == backing()) {
        /* relaxed: constant once it has a block. */
        return (owner == NULL || owner == ps_load_relaxed(&x_offsets)) && ps_tcmalloc_owns(start);
    }
    return owner != NULL && owner == (const struct ps_partition *)heap;
}

/* ---- entry points ---- */

heap_type *mi_heap_new(void);
heap_type *mi_heap_new_in_arena(int arena);
void mi_heap_delete(heap_type *heap);
void mi_heap_destroy(heap_type *heap);
heap_type *mi_heap_set_default(heap_type *heap);
heap_type *mi_heap_get_default(void);
heap_type *mi_heap_get_backing(void);
void mi_heap_collect(heap_type *heap, bool force);
bool mi_heap_contains_block(heap_type *heap, const void *block);
bool mi_heap_check_owned(heap_type *heap, const void *address);
bool mi_check_owned(const void *address);
bool mi_is_in_heap_region(const void *address);
bool mi_heap_visit_blocks(const heap_type *heap, bool visit_all_blocks, void *visitor, void *arg);

PS_EXPORT heap_type *mi_heap_new(void) {
    struct ps_partition *made = ps_partition_create("mimalloc", 0);
    if (made == NULL) {
        ps_mi_fail(errno, ENOMEM);
    }
    return (heap_type *)made;
}

/* No arena can be made here: see mimalloc_state.c. */
PS_EXPORT heap_type *mi_heap_new_in_arena(int arena) {
    (void)arena;
    return mi_heap_new();
}

static void forget(const heap_type *heap) {
    if (own_default == heap) {
        own_default = NULL;
    }
}

PS_EXPORT void mi_heap_delete(heap_type *heap) {
    struct ps_partition *partition = partition_of(heap);
    forget(heap);
    if (partition != NULL) {
        (void)ps_partition_leave(partition);
    }
}

PS_EXPORT void mi_heap_destroy(heap_type *heap) {
    struct ps_partition *partition = partition_of(heap);
    forget(heap);
    if (partition != NULL) {
        (void)ps_partition_destroy(partition);
    }
}

PS_EXPORT heap_type *mi_heap_set_default(heap_type *heap) {
    heap_type *before = ps_mi_default();
    if (heap == backing() || partition_of(heap) != NULL) {
        own_default = heap;
        return before;
    }
    return NULL;
}

PS_EXPORT heap_type *mi_heap_get_default(void) { return ps_mi_default(); }

PS_EXPORT heap_type *mi_heap_get_backing(void) { return backing(); }

PS_EXPORT void mi_heap_collect(heap_type *heap, bool force) {
    (void)heap;
    if (force) {
        (void)ps_maintenance_trim(0);
    } else {
        ps_maintenance_flush();
    }
}

PS_EXPORT bool mi_heap_contains_block(heap_type *heap, const void *block) {
    return block != NULL && ps_mi_is_in(heap, ps_mi_start_of(block));
}

/* mimalloc answers for aligned addresses alone. */
PS_EXPORT bool mi_heap_check_owned(heap_type *heap, const void *address) {
    return (uintptr_t)address % sizeof(void *) == 0 && mi_heap_contains_block(heap, address);
}

PS_EXPORT bool mi_check_owned(const void *address) {
    return mi_heap_check_owned(ps_mi_default(), address);
}

PS_EXPORT bool mi_is_in_heap_region(const void *address) { return ps_tcmalloc_owns(address); }

/* False, as when a visitor has stopped: no block was visited. */
PS_EXPORT bool mi_heap_visit_blocks(const heap_type *heap, bool visit_all_blocks, void *visitor,
                                    void *arg) {
    (void)heap;
    (void)visit_all_blocks;
    (void)visitor;
    (void)arg;
    return false;
}
