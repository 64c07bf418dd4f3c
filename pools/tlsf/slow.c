/* SPDX-License-Identifier: MIT */
/*
 * Unbounded and rare steps: growth, the oom handler, misuse, PS_DEBUG. See tlsf.h.
 */
#include "pools/tlsf/tlsf.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <errno.h>
#include <string.h>

static const char double_free[] = "double free of";
static const char foreign_pointer[] = "not a block of this pool:";

/* One thread at a time: two in the pool at once are misuse, seen in the checking mode. */
static void enter(struct ps_tlsf *tlsf) {
    /* acquire, release below: a pool handed on by its user's lock shows the last state. */
    if (tlsf->is_check && ps_exchange_acquire(&tlsf->x_is_busy, 1u) != 0) {
        ps_debug_misuse("two threads at once in", tlsf, tlsf->chunks.name);
    }
}

static void leave(struct ps_tlsf *tlsf) {
    if (tlsf->is_check) {
        ps_store_release(&tlsf->x_is_busy, 0u); /* release: as above */
    }
}

static struct lone_block *lone_of(void *payload) {
    return PS_CONTAINER_OF((char *)payload - PS_FIT_HEAD, struct lone_block, head);
}

static void *lone_alloc(struct ps_tlsf *tlsf, size_t bytes, size_t align) {
    align = ps_max(align, PS_FIT_UNIT);
    size_t lead_bytes = ps_round_up(sizeof(struct lone_block), align);
    if (bytes >= tlsf->largest_bytes || lead_bytes >= tlsf->largest_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    struct ps_source *source = ps_source_malloc();
    char *chunk = source->alloc(source, lead_bytes + bytes, align);
    if (chunk == NULL) {
        return NULL;
    }
    struct lone_block *lone = lone_of(chunk + lead_bytes);
    *lone =
        (struct lone_block){tlsf->lone_blocks, &tlsf->lone_blocks, bytes, lead_bytes, 0, tlsf->tag};
    if (lone->next != NULL) {
        lone->next->slot = &lone->next;
    }
    tlsf->lone_blocks = lone;
    return chunk + lead_bytes;
}

static void lone_free(struct lone_block *lone) {
    *lone->slot = lone->next;
    if (lone->next != NULL) {
        lone->next->slot = lone->slot;
    }
    struct ps_source *source = ps_source_malloc();
    size_t lead_bytes = lone->lead_bytes;
    lone->head |= PS_FIT_FREE;
    source->free(source, (char *)(lone + 1) - lead_bytes, lead_bytes + lone->bytes);
}

void ps_tlsf_drop_lone_blocks(struct ps_tlsf *tlsf) {
    while (tlsf->lone_blocks != NULL) {
        lone_free(tlsf->lone_blocks);
    }
}

/* Takes, grows, calls the handler, until one helps or none does. */
static void *take_or_grow(struct ps_tlsf *tlsf, size_t size, size_t align) {
    for (;;) { /* ends when the handler gives up */
        enter(tlsf);
        void *payload = ps_tlsf_take(tlsf, size, align);
        leave(tlsf); /* the handler may leave this function by a jump */
        if (payload != NULL) {
            return payload;
        }
        if (tlsf->can_grow) {
            if (!ps_tlsf_grow(tlsf, size, align)) {
                return NULL; /* the handler was called for the chunk */
            }
        } else if (tlsf->chunks.oom == NULL ||
                   tlsf->chunks.oom(tlsf->chunks.oom_context, size) == 0) {
            errno = ENOMEM;
            return NULL;
        }
    }
}

void *ps_tlsf_alloc_slow(struct ps_tlsf *tlsf, size_t bytes, size_t align) {
    if (tlsf->is_malloc) {
        return lone_alloc(tlsf, bytes, align);
    }
    if (bytes >= tlsf->largest_bytes - PS_FIT_UNIT - PS_FIT_HEAD ||
        align >= tlsf->largest_bytes - PS_FIT_UNIT - PS_FIT_HEAD) {
        errno = ENOMEM;
        return NULL;
    }
    return take_or_grow(tlsf, ps_fit_bytes_for(bytes), align);
}

void ps_tlsf_check_used(const struct ps_tlsf *tlsf, const void *payload) {
    struct block *block = block_of(payload);
    const char *name = tlsf->chunks.name;
    if (((uintptr_t)payload & (PS_FIT_UNIT - 1)) != 0) {
        ps_debug_misuse(foreign_pointer, payload, name);
    }
    if (tlsf->is_check && !tlsf->is_malloc && !ps_tlsf_owns(tlsf, payload)) {
        ps_debug_misuse(foreign_pointer, payload, name);
    }
    if (((block->head ^ tlsf->tag) & PS_FIT_TAG_MASK) != 0) {
        ps_debug_misuse(foreign_pointer, payload, name);
    }
    if ((block->head & PS_FIT_FREE) != 0) {
        ps_debug_misuse(double_free, payload, name);
    }
}

void ps_tlsf_damaged(const struct ps_tlsf *tlsf, const char *what, struct block *block) {
    ps_debug_misuse(what, block_payload(block), tlsf->chunks.name);
}

void ps_tlsf_free_slow(struct ps_tlsf *tlsf, void *payload) {
    ps_tlsf_check_used(tlsf, payload);
    if (tlsf->is_malloc) {
        int saved_errno = errno;
        lone_free(lone_of(payload));
        errno = saved_errno;
        return;
    }
    enter(tlsf);
    ps_tlsf_release(tlsf, block_of(payload), block_of(payload)->head);
    leave(tlsf);
}

/* To a new block. NULL: the old one is as it was. */
static void *move(struct ps_tlsf *tlsf, void *payload, size_t bytes, size_t align) {
    size_t old_bytes = ps_tlsf_usable_size(tlsf, payload);
    void *moved = ps_tlsf_alloc_slow(tlsf, bytes, align);
    if (moved != NULL) {
        memcpy(moved, payload, ps_min(old_bytes, bytes));
        ps_tlsf_free_slow(tlsf, payload);
    }
    return moved;
}

/* In place if the pool can, else as move. */
static void *realloc_at(struct ps_tlsf *tlsf, void *payload, size_t bytes, size_t align) {
    ps_tlsf_check_used(tlsf, payload);
    if (!tlsf->is_malloc && bytes < tlsf->largest_bytes - PS_FIT_UNIT - PS_FIT_HEAD) {
        enter(tlsf);
        bool is_done = ps_tlsf_resize(tlsf, block_of(payload), ps_fit_bytes_for(bytes));
        leave(tlsf);
        if (is_done) {
            return payload;
        }
    }
    return move(tlsf, payload, bytes, align);
}

void *ps_tlsf_realloc_aligned(struct ps_tlsf *tlsf, void *payload, size_t bytes, size_t align) {
    if (payload == NULL || !ps_is_power_of_two(align)) {
        return ps_tlsf_alloc_aligned(tlsf, bytes, align);
    }
    if (((uintptr_t)payload & (align - 1)) == 0) {
        return realloc_at(tlsf, payload, bytes, align);
    }
    ps_tlsf_check_used(tlsf, payload);
    return move(tlsf, payload, bytes, align);
}

void *ps_tlsf_realloc_slow(struct ps_tlsf *tlsf, void *payload, size_t bytes) {
    return realloc_at(tlsf, payload, bytes, PS_FIT_UNIT);
}
