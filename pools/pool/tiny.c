/* SPDX-License-Identifier: MIT */
/*
 * The tiny kind: objects of 1 to 7 bytes in pages of 4 KiB, found from an object by masking its
 * address. Objects of 2 bytes and more link the free ones of a page by their offsets in it. Objects
 * of one byte have room for 8 bits only: they are linked in groups of 256, whose heads are in the
 * page. Called by pool.c. No locks. After foonathan/memory's pool of small nodes, whose chunks are
 * searched for, where these are masked.
 */
#include "pools/pool/pool.h"

#include <poolshim/pages.h>
#include <string.h>

enum { GROUP_OBJECTS = 256, GROUPS = 16 };

struct tiny_page {
    struct ps_pool_chunk chunk; /* bytes and next are used in the first page of a chunk only */
    size_t page_count;          /* first page: pages of the chunk that are in use */
    uint32_t groups;            /* one byte: bit g: group g has free objects */
    uint16_t head;              /* two and more: offset of the first free object, 0: none */
    uint8_t heads[GROUPS];      /* one byte: index of the first free object of a group */
    uint16_t counts[GROUPS];    /* one byte: free objects of a group */
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

static void *pop(struct ps_pool *pool, struct tiny_page *page) {
    page->chunk.free_count--;
    if (pool->stride == 1) {
        size_t group = (size_t)__builtin_ctz(page->groups);
        uint8_t *object = (uint8_t *)page + group * GROUP_OBJECTS + page->heads[group];
        if (--page->counts[group] == 0) {
            page->groups &= page->groups - 1;
        } else {
            page->heads[group] = *object;
        }
        return object;
    }
    char *object = (char *)page + page->head;
    memcpy(&page->head, object, sizeof page->head);
    return object;
}

static void *expose_and_carve(struct ps_pool *pool, struct tiny_page *page) {
    if (page == NULL || !ps_pool_expose(pool, &page->chunk)) {
        return NULL;
    }
    char *object = pool->bump;
    pool->bump += pool->stride;
    return object;
}

void *ps_pool_tiny_alloc(struct ps_pool *pool) {
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

void ps_pool_tiny_free(struct ps_pool *pool, void *object) {
    struct tiny_page *page = page_of(object);
    size_t offset = (size_t)((char *)object - (char *)page);
    if (pool->stride == 1) {
        size_t group = offset / GROUP_OBJECTS;
        if (page->counts[group]++ == 0) {
            page->groups |= (uint32_t)1 << group;
        } else {
            *(uint8_t *)object = page->heads[group];
        }
        page->heads[group] = (uint8_t)offset;
    } else {
        memcpy(object, &page->head, sizeof page->head);
        page->head = (uint16_t)offset;
    }
    page->chunk.free_count++;
    if (!page->chunk.is_in_room && &page->chunk != pool->current) {
        ps_pool_room_add(pool, &page->chunk);
    }
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

/* The pages of a drained chunk are on the list of those with room: they leave it. */
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
    .alloc = ps_pool_tiny_alloc,
    .alloc_n = NULL,
    .free_n = NULL,
    .count = tiny_count,
    .sum = tiny_sum,
    .forget_drained = tiny_forget_drained,
};
