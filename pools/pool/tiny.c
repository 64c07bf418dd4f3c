/* SPDX-License-Identifier: MIT */
/*
 * The tiny kind: objects of 1 to 7 bytes in pages of 4 KiB, found from an object by masking its
 * address. Objects of 2 bytes and more link the free ones of a page by their offsets in it. Objects
 * of one byte have room for 8 bits only: they are linked in groups of 256, and the last one of a
 * list contains its own index. One group is active: its list is popped. The heads of the others are
 * in the page. Called by pool.c. No locks. After foonathan/memory's pool of small nodes, which
 * searches for the chunk of an object, where this masks the address.
 *
 *   free_count != 0 <=> first != NULL (objects of one byte), head != 0 (others)
 *   first == NULL => groups == 0
 */
#include "pools/pool/pool.h"

#include <poolshim/pages.h>
#include <string.h>

enum { GROUP_OBJECTS = 256, GROUPS = 16 };

struct tiny_page {
    struct ps_pool_chunk chunk; /* bytes and next are used in the first page of a chunk only */
    size_t page_count;          /* first page: pages of the chunk that are in use */
    uint8_t *first;             /* one byte: of the active group's free objects */
    uint32_t groups;            /* one byte: bit g: group g, not the active one, has free objects */
    uint16_t head;              /* two and more: offset of the first free object, 0: none */
    uint8_t heads[GROUPS];      /* one byte: index of the first free object of a group */
};

static struct tiny_page *page_of(const void *address) {
    return (struct tiny_page *)((uintptr_t)address & ~(uintptr_t)(PS_PAGE_BYTES - 1));
}

/* One byte: the first group is the page's head. */
static size_t nodes_offset(const struct ps_pool *pool) {
    _Static_assert(sizeof(struct tiny_page) <= GROUP_OBJECTS, "the head fits into a group");
    return pool->stride == 1 ? GROUP_OBJECTS : ps_round_up(offsetof(struct tiny_page, heads), 16);
}

static size_t objects_per_page(const struct ps_pool *pool) {
    return (PS_PAGE_BYTES - nodes_offset(pool)) / pool->stride;
}

static size_t tiny_bytes_for(const struct ps_pool *pool, size_t count) {
    size_t pages = count / objects_per_page(pool) + 1;
    size_t bytes;
    return __builtin_mul_overflow(pages, PS_PAGE_BYTES, &bytes) ? 0 : bytes;
}

static void build_page(struct ps_pool *pool, struct tiny_page *page) {
    *page = (struct tiny_page){
        .chunk = {.nodes = (char *)page + nodes_offset(pool), .capacity = objects_per_page(pool)},
    };
}

static void tiny_build(struct ps_pool *pool, void *memory, size_t bytes) {
    struct tiny_page *page = (struct tiny_page *)memory;
    build_page(pool, page);
    page->page_count = 1;
    ps_pool_enter_chunk(pool, &page->chunk, bytes);
    ps_pool_room_add(pool, &page->chunk);
}

/* The next page of a chunk, or NULL. Only the newest chunks have one: the search is short, but
 * before the pool grows. */
static struct tiny_page *next_page(struct ps_pool *pool) {
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        struct tiny_page *first = (struct tiny_page *)(void *)chunk;
        if (first->page_count < chunk->bytes / PS_PAGE_BYTES) {
            struct tiny_page *page =
                (struct tiny_page *)(void *)((char *)first + first->page_count * PS_PAGE_BYTES);
            build_page(pool, page);
            page->chunk.number = pool->chunk_number++;
            first->page_count++;
            return page;
        }
    }
    return NULL;
}

/* The active group has become empty. */
static PS_NOINLINE void activate_next(struct tiny_page *page) {
    if (page->groups == 0) {
        page->first = NULL;
        return;
    }
    size_t group = (size_t)__builtin_ctz(page->groups);
    page->groups &= page->groups - 1;
    page->first = (uint8_t *)page + group * GROUP_OBJECTS + page->heads[group];
}

static inline uint8_t index_of(const uint8_t *object) { return (uint8_t)(uintptr_t)object; }

static inline void *pop_byte(struct tiny_page *page) {
    uint8_t *object = page->first;
    if (object == NULL) {
        return NULL;
    }
    page->chunk.free_count--;
    uint8_t next = *object;
    if (PS_UNLIKELY(next == index_of(object))) {
        activate_next(page);
        return object;
    }
    page->first = object - index_of(object) + next;
    return object;
}

static inline void *pop_linked(struct tiny_page *page) {
    if (page->head == 0) {
        return NULL;
    }
    char *object = (char *)page + page->head;
    memcpy(&page->head, object, sizeof page->head);
    page->chunk.free_count--;
    return object;
}

/* NULL: the page has no free object. */
static inline void *pop(const struct ps_pool *pool, struct tiny_page *page) {
    return pool->stride == 1 ? pop_byte(page) : pop_linked(page);
}

static void *expose_and_carve(struct ps_pool *pool, struct tiny_page *page) {
    if (page == NULL || !ps_pool_expose(pool, &page->chunk)) {
        return NULL;
    }
    char *object = pool->bump;
    pool->bump += pool->stride;
    return object;
}

static PS_NOINLINE void *alloc_settled(struct ps_pool *pool) {
    ps_pool_settle(pool);
    struct ps_pool_chunk *next;
    for (struct ps_pool_chunk *chunk = pool->room_first; chunk != NULL; chunk = next) {
        next = chunk->room_next;
        if (chunk->free_count != 0) {
            return pop(pool, (struct tiny_page *)(void *)chunk);
        }
        if (chunk->carved == chunk->capacity) {
            ps_pool_room_remove(pool, chunk);
        } else if (pool->uncarved_count != 0) {
            return expose_and_carve(pool, (struct tiny_page *)(void *)chunk);
        }
    }
    return pool->uncarved_count != 0 ? expose_and_carve(pool, next_page(pool)) : NULL;
}

static PS_NOINLINE void *alloc_or_grow(struct ps_pool *pool) {
    void *object = alloc_settled(pool);
    return object != NULL ? object : ps_pool_kept_or_grown(pool, 1);
}

/* From the first page with room, whose free objects may go before the current page is settled. A
 * leaf except at its end, as ps_pool_map_free is. */
void *ps_pool_tiny_alloc(struct ps_pool *pool) {
    struct tiny_page *page = (struct tiny_page *)(void *)pool->room_first;
    void *object = PS_LIKELY(page != NULL) ? pop(pool, page) : NULL;
    return PS_LIKELY(object != NULL) ? object : alloc_or_grow(pool);
}

/* The page has its first free object. */
static PS_NOINLINE void note_room(struct ps_pool *pool, struct tiny_page *page) {
    page->chunk.free_count++;
    if (!page->chunk.is_in_room && &page->chunk != pool->current) {
        ps_pool_room_add(pool, &page->chunk);
    }
}

static inline size_t group_of(const struct tiny_page *page, const uint8_t *object) {
    return (size_t)(object - (const uint8_t *)page) / GROUP_OBJECTS;
}

/* An object of a group that is not active: it is now, since others of it tend to follow. */
static PS_NOINLINE void push_byte(struct ps_pool *pool, struct tiny_page *page, uint8_t *object) {
    uint8_t *first = page->first;
    page->first = object;
    if (first == NULL) {
        *object = index_of(object);
        note_room(pool, page);
        return;
    }
    size_t left = group_of(page, first);
    size_t group = group_of(page, object);
    uint32_t bit = (uint32_t)1 << group;
    *object = (page->groups & bit) != 0 ? page->heads[group] : index_of(object);
    page->heads[left] = index_of(first);
    page->groups = (page->groups & ~bit) | (uint32_t)1 << left;
    page->chunk.free_count++;
}

void ps_pool_tiny_free(struct ps_pool *pool, void *object) {
    struct tiny_page *page = page_of(object);
    if (pool->stride == 1) {
        uint8_t *byte = (uint8_t *)object;
        uint8_t *first = page->first;
        if (((uintptr_t)byte ^ (uintptr_t)first) >= GROUP_OBJECTS) { /* that of NULL too */
            push_byte(pool, page, byte);
            return;
        }
        *byte = index_of(first);
        page->first = byte;
    } else {
        bool is_first = page->head == 0;
        memcpy(object, &page->head, sizeof page->head);
        page->head = (uint16_t)((char *)object - (char *)page);
        if (is_first) {
            note_room(pool, page);
            return;
        }
    }
    page->chunk.free_count++;
}

/* The address lies in a chunk. */
bool ps_pool_tiny_owns(const struct ps_pool *pool, const void *address) {
    size_t offset = (uintptr_t)address & (PS_PAGE_BYTES - 1);
    return offset >= nodes_offset(pool) &&
           offset < nodes_offset(pool) + objects_per_page(pool) * pool->stride;
}

static void tiny_count(struct ps_pool *pool) { (void)pool; }

static void tiny_sum(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                     struct ps_pool_sum *sum) {
    const struct tiny_page *first = (const struct tiny_page *)(const void *)chunk;
    *sum = (struct ps_pool_sum){
        .capacity = chunk->bytes / PS_PAGE_BYTES * objects_per_page(pool),
    };
    for (size_t page = 0; page < first->page_count; page++) {
        const struct ps_pool_chunk *at =
            (const struct ps_pool_chunk *)(const void *)((const char *)chunk +
                                                         page * PS_PAGE_BYTES);
        sum->carved += at->carved;
        sum->free_count += at->free_count;
    }
}

/* The pages of a drained chunk are on the list of pages with room: they leave it. */
static void tiny_forget_drained(struct ps_pool *pool) {
    for (struct ps_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        struct ps_pool_sum sum;
        tiny_sum(pool, chunk, &sum);
        size_t pages = ((struct tiny_page *)(void *)chunk)->page_count;
        for (size_t page = 1; sum.carved == sum.free_count && page < pages; page++) {
            struct ps_pool_chunk *at =
                (struct ps_pool_chunk *)(void *)((char *)chunk + page * PS_PAGE_BYTES);
            if (at->is_in_room) {
                ps_pool_room_remove(pool, at);
            }
        }
    }
}

const struct ps_pool_actions ps_pool_tiny_actions = {
    .bytes_for = tiny_bytes_for,
    .build = tiny_build,
    .alloc = alloc_settled,
    .alloc_n = NULL,
    .free_n = NULL,
    .count = tiny_count,
    .sum = tiny_sum,
    .forget_drained = tiny_forget_drained,
};
