/* SPDX-License-Identifier: MIT */
/*
 * A small load for every family of the pools library while system calls fail: refused calls say
 * ENOMEM, live blocks are intact, ended pools return their memory, and when the faults are over
 * everything works. Families take chunks from mappings, so that each chunk is a call.
 */
#include "blocks.h"
#include "marker.h"

#include <poolshim/arena.h>
#include <poolshim/bounded.h>
#include <poolshim/fifo.h>
#include <poolshim/pages.h>
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/retire.h>
#include <poolshim/ring.h>
#include <poolshim/shared.h>
#include <poolshim/slice.h>
#include <poolshim/slots.h>
#include <poolshim/source.h>
#include <poolshim/stack.h>
#include <poolshim/tlsf.h>

#define BLOCKS 300

static size_t refused_count;
static bool is_over; /* the faults are: nothing may be refused */
static struct ps_source_mmap mappings;
static struct ps_chunk_options chunks;

/* Notes a call that may be refused. */
static bool is_had(const void *result) {
    if (result == NULL) {
        CLAIM(errno == ENOMEM && !is_over);
        refused_count++;
    }
    errno = 0;
    return result != NULL;
}

static size_t size_of(size_t i) { return i % 17 == 0 ? 50000 + i : 16 + i * 37 % 4000; }

/* Takes on a block that was asked for, or notes that it was refused. */
static bool take_on(struct block *block, size_t i, void *address) {
    *block = (struct block){address, size_of(i), i};
    if (is_had(address)) {
        block_fill(block);
    }
    return address != NULL;
}

static void check_all(const struct block *blocks) { blocks_check(blocks, BLOCKS); }

static void use_region(struct block *blocks) {
    struct ps_region_options options = {.chunks = chunks};
    struct ps_region *region = ps_region_create(&options);
    if (!is_had(region)) {
        return;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        take_on(&blocks[i], i, ps_region_alloc(region, size_of(i)));
    }
    struct ps_region *child = ps_region_create_child(region, NULL);
    if (is_had(child)) {
        is_had(ps_region_printf(child, "%0200d", 7));
    }
    check_all(blocks);
    ps_region_destroy(region);
}

static void use_stack(struct block *blocks) {
    struct ps_stack_options options = {.chunks = chunks};
    struct ps_stack *stack = ps_stack_create(&options);
    if (!is_had(stack)) {
        return;
    }
    struct ps_stack_frame *frame = ps_stack_push(stack);
    if (is_had(frame)) {
        for (size_t i = 0; i < BLOCKS; i++) {
            take_on(&blocks[i], i, ps_stack_alloc(stack, size_of(i)));
        }
        check_all(blocks);
        ps_stack_pop(stack, frame);
    }
    ps_stack_destroy(stack);
}

static void use_fifo(struct block *blocks) {
    struct ps_fifo_options options = {.chunks = chunks, .spare_bytes = 1};
    struct ps_fifo *fifo = ps_fifo_create(&options);
    if (!is_had(fifo)) {
        return;
    }
    for (size_t i = 0; i < 3 * BLOCKS; i++) {
        struct block *block = &blocks[i % BLOCKS];
        CLAIM(block->address == NULL || block_is_intact(block, block->bytes));
        ps_fifo_free(fifo, block->address);
        take_on(block, i, ps_fifo_alloc(fifo, size_of(i)));
    }
    check_all(blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_fifo_free(fifo, blocks[i].address);
    }
    ps_fifo_destroy(fifo);
}

static void use_ring(struct block *blocks) {
    struct ps_ring_options options = {.chunks = chunks, .spare_bytes = 1};
    struct ps_ring *ring = ps_ring_create(&options);
    if (!is_had(ring)) {
        return;
    }
    for (size_t round = 0; round < 10; round++) {
        struct ps_ring_frame *frame = ps_ring_begin(ring);
        if (!is_had(frame)) {
            continue;
        }
        for (size_t i = 0; i < BLOCKS / 10; i++) {
            take_on(&blocks[i], i, ps_ring_alloc(ring, size_of(i)));
        }
        blocks_check(blocks, BLOCKS / 10);
        ps_ring_seal(ring);
        ps_ring_release(frame);
    }
    ps_ring_destroy(ring);
}

static void use_pool(struct block *blocks) {
    struct ps_pool_options options = {.chunks = chunks};
    struct ps_pool pool;
    CLAIM(ps_pool_init(&pool, 4096 + 16, 16, &options));
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = (struct block){ps_pool_alloc(&pool), 4096 + 16, i};
            if (is_had(blocks[i].address)) {
                block_fill(&blocks[i]);
            }
        }
        check_all(blocks);
        for (size_t i = round; i < BLOCKS; i++) {
            if (blocks[i].address != NULL) {
                ps_pool_free(&pool, blocks[i].address);
            }
        }
    }
    ps_pool_destroy(&pool);
}

static void use_slice(struct block *blocks) {
    for (size_t i = 0; i < BLOCKS; i++) {
        take_on(&blocks[i], i, ps_slice_alloc(size_of(i)));
    }
    check_all(blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_slice_free(blocks[i].address != NULL ? size_of(i) : 8, blocks[i].address);
    }
    ps_slice_trim_to(0);
}

static void use_tlsf(struct block *blocks) {
    struct ps_tlsf_options options = {.chunks = chunks, .largest_bytes = 1 << 20};
    struct ps_tlsf *tlsf = ps_tlsf_create(&options);
    if (!is_had(tlsf)) {
        return;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        take_on(&blocks[i], i, ps_tlsf_alloc(tlsf, size_of(i)));
    }
    check_all(blocks);
    CLAIM(ps_tlsf_check(tlsf) == NULL);
    for (size_t i = 0; i < BLOCKS; i += 2) {
        ps_tlsf_free(tlsf, blocks[i].address);
    }
    ps_tlsf_trim_to(tlsf, 0);
    CLAIM(ps_tlsf_check(tlsf) == NULL);
    ps_tlsf_destroy(tlsf);
}

static void use_pages(struct block *blocks) {
    for (size_t i = 0; i < BLOCKS; i++) {
        take_on(&blocks[i], i, ps_pages_alloc(size_of(i), PS_PAGE_BYTES));
    }
    check_all(blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_pages_free(blocks[i].address, size_of(i));
    }
}

static void use_slots(struct block *blocks) {
    struct ps_slots_options options = {.chunks = chunks};
    struct ps_slots slots;
    uint64_t handles[BLOCKS];
    CLAIM(ps_slots_init(&slots, 4096 + 16, 16, &options));
    for (size_t i = 0; i < BLOCKS; i++) {
        void *object = NULL;
        handles[i] = ps_slots_insert(&slots, &object);
        blocks[i] = (struct block){handles[i] != 0 ? object : NULL, 4096 + 16, i};
        if (is_had(blocks[i].address)) {
            block_fill(&blocks[i]);
        }
    }
    check_all(blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        CLAIM(ps_slots_remove(&slots, handles[i]) == (blocks[i].address != NULL));
    }
    CLAIM(ps_slots_check(&slots));
    ps_slots_destroy(&slots);
}

static void use_bounded(struct block *blocks) {
    struct ps_bounded_options options = {.chunks = chunks};
    struct ps_bounded *pool = ps_bounded_create(4096, 0, BLOCKS, &options);
    if (!is_had(pool)) {
        return;
    }
    for (size_t i = 0; i < BLOCKS; i++) { /* nothing more is taken from the system */
        blocks[i] = (struct block){ps_bounded_alloc(pool), 4096, i};
        CLAIM(blocks[i].address != NULL);
        block_fill(&blocks[i]);
    }
    check_all(blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_bounded_free(pool, blocks[i].address);
    }
    CLAIM(ps_bounded_check(pool));
    ps_bounded_destroy(pool);
}

/* Chunks of 50,000 bytes and of 2 MiB of a source; a system may lack what the source is for. */
static void use_source(bool is_made, struct ps_source *source, struct block *blocks) {
    if (!is_made) {
        CLAIM(errno == ENOSYS || errno == EPERM || (errno == ENOMEM && !is_over));
        refused_count += errno == ENOMEM;
        errno = 0;
        return;
    }
    for (size_t i = 0; i < 20; i++) {
        size_t bytes = i % 5 == 0 ? 2 * MIB : 50000;
        blocks[i] = (struct block){source->alloc(source, bytes, 16), bytes, i};
        if (is_had(blocks[i].address)) {
            block_fill(&blocks[i]);
        }
    }
    blocks_check(blocks, 20);
    for (size_t i = 0; i < 20; i++) {
        if (blocks[i].address != NULL) {
            source->free(source, blocks[i].address, blocks[i].bytes);
        }
    }
}

static void use_sources(struct block *blocks) {
    struct ps_source_huge huge;
    use_source(ps_source_huge_init(&huge, 0, 0), &huge.source, blocks);
    struct ps_source_numa numa;
    use_source(ps_source_numa_init(&numa, PS_NUMA_PREFERRED, 0, PS_MMAP_GUARD), &numa.source,
               blocks);
}

static size_t retired_count;

static void end_retired(void *object, void *context) {
    (void)context;
    CLAIM(block_is_intact(object, ((struct block *)object)->bytes));
    retired_count++;
}

static void use_retire(struct block *blocks) {
    static unsigned char contents[64][64];
    struct ps_retire_options options = {.chunks = chunks};
    struct ps_retire *domain = ps_retire_create(&options);
    if (!is_had(domain)) {
        return;
    }
    retired_count = 0;
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = (struct block){contents[i], sizeof contents[i], i};
        block_fill(&blocks[i]);
        CLAIM(ps_retire_enter(domain));
        ps_retire_leave(domain);
        CLAIM(ps_retire(domain, &blocks[i], end_retired, NULL));
    }
    ps_retire_destroy(domain);
    CLAIM(retired_count == 64);
}

/* Whether an arena's call was refused by the system; any other failure is none that faults may
 * cause. */
static bool is_refused(enum ps_arena_status status) {
    CLAIM(status == PS_ARENA_OK || (status == PS_ARENA_SYSTEM && !is_over));
    refused_count += status != PS_ARENA_OK;
    return status != PS_ARENA_OK;
}

static void use_arena(const char *path) {
    struct ps_arena_options options = {.chunks = chunks, .reserve_bytes = MIB};
    struct ps_arena *arena;
    if (is_refused(ps_arena_open(&arena, path, PS_ARENA_CREATE, &options))) {
        return;
    }
    for (int round = 0; round < 3; round++) {
        errno = 0;
        struct block block = {ps_arena_alloc(arena, 100 * KIB), 100 * KIB, 1};
        if (is_had(block.address)) {
            block_fill(&block);
            ps_offset root = ps_arena_root(arena);
            uint64_t sequence = ps_arena_sequence(arena);
            ps_arena_set_root(arena, ps_arena_offset(arena, block.address));
            if (is_refused(ps_arena_commit(arena))) {
                CLAIM(ps_arena_sequence(arena) == sequence);
                if (!is_refused(ps_arena_rollback(arena))) {
                    CLAIM(ps_arena_root(arena) == root);
                }
            }
        }
        CLAIM(ps_arena_check(arena) == NULL);
    }
    errno = 0;
    is_had(ps_arena_extend(arena, 3 * MIB) ? arena : NULL); /* moves it */
    CLAIM(ps_arena_check(arena) == NULL);
    ps_offset root = ps_arena_root(arena);
    ps_arena_close(arena);
    if (!is_refused(ps_arena_open(&arena, path, PS_ARENA_VERIFY, NULL))) {
        struct block block = {ps_arena_at(arena, ps_arena_root(arena)), 100 * KIB, 1};
        CLAIM(ps_arena_root(arena) == root);
        CLAIM(block.address == NULL || block_is_intact(&block, block.bytes));
        ps_arena_close(arena);
    }
}

static void use_shared(const char *path) {
    struct ps_shared_options options = {.chunks = chunks, .max_bytes = 4 * MIB};
    struct ps_shared *heap;
    enum ps_shared_status status = ps_shared_open(&heap, path, PS_SHARED_CREATE, &options);
    CLAIM(status == PS_SHARED_OK || (status == PS_SHARED_SYSTEM && !is_over));
    refused_count += status != PS_SHARED_OK;
    if (status == PS_SHARED_OK) {
        struct block blocks[20];
        errno = 0;
        for (size_t i = 0; i < 20; i++) {
            blocks[i] = (struct block){ps_shared_alloc(heap, 50 * KIB), 50 * KIB, i};
            if (is_had(blocks[i].address)) {
                block_fill(&blocks[i]);
            }
            CLAIM(ps_shared_check(heap) == NULL);
        }
        blocks_check(blocks, 20);
        for (size_t i = 0; i < 20; i++) {
            ps_shared_free(heap, blocks[i].address);
        }
        CLAIM(ps_shared_check(heap) == NULL);
        ps_shared_close(heap);
    }
    (void)unlink(path);
}

static void use_all(const char *path) {
    static void (*const families[])(struct block *) = {
        use_region, use_stack, use_fifo,  use_ring,    use_pool,   use_slice,
        use_tlsf,   use_pages, use_slots, use_bounded, use_retire, use_sources,
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct block blocks[BLOCKS] = {{NULL, 0, 0}};
        families[i](blocks);
    }
    use_arena(path);
    use_shared("pools.shared");
}

int main(int count, char **arguments) {
    CLAIM(count == 2); /* the path of an arena, to be made */
    ps_source_mmap_init(&mappings, PS_MMAP_GUARD);
    chunks = (struct ps_chunk_options){.source = &mappings.source, .max_bytes = 64 * KIB};
    (void)unlink(arguments[1]);
    (void)marker_say(MARKER_BEGIN);
    use_all(arguments[1]);
    long faults = marker_say(MARKER_END);
    CLAIM(faults > 0 || refused_count == 0);
    (void)unlink(arguments[1]);
    size_t refused_by_faults = refused_count;
    is_over = true;
    use_all(arguments[1]);
    (void)unlink(arguments[1]);
    CLAIM(refused_count == refused_by_faults);
    dprintf(1, "refused %zu\nrss_kib %zu\n", refused_count, claim_rss_bytes() / KIB);
    return 0;
}
