/* SPDX-License-Identifier: MIT */
/*
 * Intrusive pools: everything but the inlined paths and the memory. See
 * poolshim/intrusive.h and intrusive.h.
 *
 * How items of a shared pool return: any thread pushes them on x_returned, the pool's thread
 * takes the whole list when its own is empty. When the pool is destroyed it closes that list,
 * counts the live items, and adds the number to x_left; from then on each return subtracts one, and
 * the one that reaches zero ends the state. Returns that see the closed list before the number is
 * added make x_left negative, so that zero is not seen too early.
 */
#include "pools/intrusive/intrusive.h"
#include "pools/common/debug.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <errno.h>
#include <string.h>

#define BYTES_MAX ((size_t)1 << 40)
#define ALIGN_MAX ((size_t)4096)

struct ps_intrusive_state ps_intrusive_none;

static bool is_valid(const struct ps_intrusive_options *options) {
    size_t item = sizeof(struct ps_intrusive_item);
    return options->bytes >= item && options->bytes <= BYTES_MAX &&
           options->item_offset <= options->bytes - item && options->item_offset % 8 == 0 &&
           ps_is_power_of_two(options->align) && options->align >= 8 &&
           options->align <= ALIGN_MAX &&
           (options->max_items == 0 || options->reserve_items <= options->max_items);
}

/* Gives up a reference that is not the last one; false when it is, and then it is still there. */
static bool drop_if_others(const struct intrusive_pool *pool, struct ps_intrusive_item *item) {
    uint32_t count = ps_load_relaxed(&item->count); /* relaxed: 1 is this thread's own */
    if (pool->options.is_shared == 0) {
        item->count = count - (count > 1);
        return count > 1;
    }
    while (count > 1) { /* ends: others drop theirs */
        /* acq_rel: as in ps_intrusive_drop_shared. */
        if (ps_cas_weak_acq_rel(&item->count, &count, count - 1)) {
            return true;
        }
    }
    return false;
}

/* The value of `last` for a pool with a recycle function. */
static void recycle_last(struct ps_intrusive_state *state, struct ps_intrusive_item *item) {
    const struct intrusive_pool *pool = intrusive_pool_of(state);
    pool->options.recycle(item, pool->options.context);
    if (!drop_if_others(pool, item)) {
        ps_intrusive_put(state, item);
    }
}

bool ps_intrusive_init(struct ps_intrusive *pool, const struct ps_intrusive_options *options) {
    pool->state = &ps_intrusive_none;
    pool->options = *options;
    struct ps_intrusive_options *own = &pool->options;
    own->align = own->align != 0 ? own->align : PS_ALIGN_DEFAULT;
    if (!is_valid(own)) {
        errno = EINVAL;
        return false;
    }
    own->bytes = ps_round_up(own->bytes, own->align);
    if (own->recycle != NULL) {
        own->last = recycle_last;
    }
    return own->reserve_items == 0 || ps_intrusive_reserve(pool, own->reserve_items);
}

size_t ps_intrusive_length(const struct ps_intrusive_item *first) {
    size_t length = 0;
    for (; first != NULL; first = first->link.next) {
        length++;
    }
    return length;
}

/* Detaches the pool from a state to which other threads return items. */
static void close_shared(struct intrusive_pool *pool) {
    /* acquire: pairs with the release in return_shared; makes the list readable. */
    struct ps_intrusive_item *returned = ps_exchange_acquire(&pool->x_returned, INTRUSIVE_CLOSED);
    size_t live = 0;
    if (returned == INTRUSIVE_CLOSED) { /* malloc: returns were counted all along */
        live = pool->face.hold_count - 1;
    } else {
        live = pool->touched - ps_intrusive_length(pool->kept) -
               ps_intrusive_length(pool->face.free) - ps_intrusive_length(returned);
    }
    if (intrusive_add_left(pool, live) == 0) {
        ps_intrusive_end(&pool->face);
    }
}

void ps_intrusive_reset(struct ps_intrusive *pool) {
    struct ps_intrusive_state *state = pool->state;
    pool->state = &ps_intrusive_none;
    if (state == &ps_intrusive_none) {
        return;
    }
    if (intrusive_pool_of(state)->options.is_shared != 0) {
        close_shared(intrusive_pool_of(state));
    } else if (--state->hold_count == 0) {
        ps_intrusive_end(state);
    }
}

void ps_intrusive_clear(struct ps_intrusive *pool) { ps_intrusive_reset(pool); }

void ps_intrusive_destroy(struct ps_intrusive *pool) { ps_intrusive_reset(pool); }

void ps_intrusive_move(struct ps_intrusive *to, struct ps_intrusive *from) {
    *to = *from;
    from->state = &ps_intrusive_none;
}

bool ps_intrusive_reserve(struct ps_intrusive *pool, size_t items) {
    if (pool->state == &ps_intrusive_none) {
        struct ps_intrusive_options options = pool->options;
        options.reserve_items = ps_max(options.reserve_items, items);
        struct intrusive_pool *state = ps_intrusive_state_create(&options);
        if (state == NULL) {
            return false;
        }
        pool->state = &state->face;
    }
    struct intrusive_pool *state = intrusive_pool_of(pool->state);
    return state->is_malloc || items <= state->capacity ||
           state->capacity == state->options.max_items ||
           ps_intrusive_grow(state, items - state->capacity);
}

void ps_intrusive_set_recycle(struct ps_intrusive *pool, ps_intrusive_recycle *recycle,
                              void *context) {
    pool->options.recycle = recycle;
    pool->options.context = context;
    pool->options.last = recycle != NULL ? recycle_last : NULL;
    if (pool->state != &ps_intrusive_none) {
        struct intrusive_pool *state = intrusive_pool_of(pool->state);
        state->options.recycle = recycle;
        state->options.context = context;
        state->face.last = pool->options.last;
    }
}

static struct ps_intrusive_item *hand_out(struct intrusive_pool *pool,
                                          struct ps_intrusive_item *item) {
    pool->face.hold_count++;
    item->link.owner = &pool->face;
    /* relaxed: other threads get the item from this one. */
    ps_store_relaxed(&item->count, 1u);
    return item;
}

/* Number of live items with PS_DEBUG=malloc. */
static size_t live_malloc(const struct intrusive_pool *pool) {
    return pool->face.hold_count - 1 + ps_load_relaxed(&pool->x_left); /* relaxed: a count */
}

static struct ps_intrusive_item *alloc_malloc(struct intrusive_pool *pool) {
    if (pool->options.max_items != 0 && live_malloc(pool) >= pool->options.max_items) {
        errno = ENOMEM;
        return NULL;
    }
    struct ps_source *source = ps_source_malloc();
    char *object = source->alloc(source, pool->options.bytes, pool->options.align);
    if (object == NULL) {
        return NULL;
    }
    struct ps_intrusive_item *item =
        (struct ps_intrusive_item *)(object + pool->options.item_offset);
    item->is_built = 0;
    return hand_out(pool, item);
}

/* An object that was never allocated, or NULL when there are no more. */
static struct ps_intrusive_item *alloc_virgin(struct intrusive_pool *pool) {
    while (pool->virgin_count == 0) { /* ends: a chunk may be used up by the state, not two */
        if (pool->chunk_in_use == pool->last_chunk && !ps_intrusive_grow(pool, 0)) {
            return NULL;
        }
        pool->chunk_in_use = pool->chunk_in_use->next;
        pool->virgin = pool->chunk_in_use->first;
        pool->virgin_count = pool->chunk_in_use->count;
    }
    struct ps_intrusive_item *item =
        (struct ps_intrusive_item *)(pool->virgin + pool->options.item_offset);
    pool->virgin += pool->stride_bytes;
    pool->virgin_count--;
    pool->touched++;
    if (pool->is_checked) {
        ps_intrusive_unpoison(pool, item);
    }
    item->is_built = 0;
    return hand_out(pool, item);
}

/* A free item of a pool that is checked or shared, or NULL. */
static struct ps_intrusive_item *alloc_kept(struct intrusive_pool *pool) {
    struct ps_intrusive_item **list = pool->is_checked ? &pool->kept : &pool->face.free;
    /* relaxed: a first read without a read-modify-write. */
    if (*list == NULL && ps_load_relaxed(&pool->x_returned) != NULL) {
        /* acquire: pairs with the release in return_shared; makes the items visible. */
        *list = ps_exchange_acquire(&pool->x_returned, NULL);
    }
    struct ps_intrusive_item *item = *list;
    if (item == NULL) {
        return NULL;
    }
    *list = item->link.next;
    __builtin_prefetch(*list, 1);
    if (pool->is_checked) {
        ps_intrusive_unpoison(pool, item);
    }
    return hand_out(pool, item);
}

struct ps_intrusive_item *ps_intrusive_alloc_slow(struct ps_intrusive *pool) {
    if (PS_UNLIKELY(pool->state == &ps_intrusive_none) && !ps_intrusive_reserve(pool, 0)) {
        return NULL;
    }
    struct intrusive_pool *state = intrusive_pool_of(pool->state);
    if (PS_UNLIKELY(state->is_malloc)) {
        return alloc_malloc(state);
    }
    if (state->is_checked || state->options.is_shared != 0) {
        struct ps_intrusive_item *item = alloc_kept(state);
        if (item != NULL) {
            return item;
        }
    }
    return alloc_virgin(state);
}

/* One of the last items of a state whose list is closed. */
static void count_down(struct intrusive_pool *pool) {
    if (intrusive_add_left(pool, (size_t)0 - 1) == 0) {
        ps_intrusive_end(&pool->face);
    }
}

static void return_shared(struct intrusive_pool *pool, struct ps_intrusive_item *item) {
    struct ps_intrusive_item *head = ps_load_relaxed(&pool->x_returned); /* relaxed: see the swap */
    do {                                                                 /* ends: as any stack's */
        if (head == INTRUSIVE_CLOSED) {
            count_down(pool);
            return;
        }
        item->link.next = head;
        /* release: pairs with the exchanges of the pool's thread; transfers the item. The state
         * is not touched after this: it may end at once. */
    } while (!ps_cas_weak_release(&pool->x_returned, &head, item));
}

static void put_malloc(struct intrusive_pool *pool, struct ps_intrusive_item *item) {
    if (pool->options.end != NULL && item->is_built != 0) {
        pool->options.end(item, pool->options.context);
    }
    struct ps_source *source = ps_source_malloc();
    source->free(source, intrusive_object(pool, item), pool->options.bytes);
    if (pool->options.is_shared != 0) {
        count_down(pool);
    } else if (--pool->face.hold_count == 0) {
        ps_intrusive_end(&pool->face);
    }
}

void ps_intrusive_put_slow(struct ps_intrusive_state *state, struct ps_intrusive_item *item) {
    struct intrusive_pool *pool = intrusive_pool_of(state);
    int error = errno;
    ps_store_relaxed(&item->count, 0u); /* relaxed: no reference is left to read it */
    if (pool->is_malloc) {
        put_malloc(pool, item);
    } else {
        if (pool->is_checked) {
            ps_intrusive_poison(pool, item);
        }
        if (pool->options.is_shared != 0) {
            return_shared(pool, item);
        } else {
            item->link.next = pool->kept;
            pool->kept = item;
            if (--state->hold_count == 0) {
                ps_intrusive_end(state);
            }
        }
    }
    errno = error;
}

void ps_intrusive_drop_odd(struct ps_intrusive_item *item) {
    ps_debug_misuse("drop of a reference that does not exist, of item", item, "an intrusive pool");
}

void ps_intrusive_undo(struct ps_intrusive_state *state, struct ps_intrusive_item *item) {
    if (!drop_if_others(intrusive_pool_of(state), item)) {
        ps_intrusive_put(state, item);
    }
}
