/* SPDX-License-Identifier: MIT */
/*
 * A pool of each family with a name: at the end 8 MiB of each are live, taken by hold_<family>.
 * Then two pools that one function fills, a destroyed pool whose name was overwritten, pools over
 * other sources, and names that are no plain text. It prints the bytes of the chunks of most, a
 * line each: "<bytes> <family> <name>".
 *
 *   load_named_pools        ends by exit, with the pools live
 *   load_named_pools kill   by SIGKILL
 */
#include <poolshim/bounded.h>
#include <poolshim/fifo.h>
#include <poolshim/intrusive.h>
#include <poolshim/pool.h>
#include <poolshim/pools.h>
#include <poolshim/region.h>
#include <poolshim/registry.h>
#include <poolshim/retire.h>
#include <poolshim/ring.h>
#include <poolshim/slice.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>
#include <poolshim/tlsf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_OUT __attribute__((noinline))
#define MIB ((size_t)1 << 20)
#define HELD (8 * MIB)
#define BLOCK ((size_t)1000)

static void *use(void *block) {
    if (block == NULL) {
        exit(9);
    }
    return memset(block, 1, BLOCK);
}

static struct ps_chunk_options named(const char *name) {
    return (struct ps_chunk_options){.name = name};
}

static void tell(const struct ps_pool_info *info, void *context) {
    (void)context;
    printf("%zu %s %s\n", info->total_bytes, info->family, info->name);
}

/* ---- families ---- */

KEPT_OUT static void hold_pool(size_t count) {
    static struct ps_pool pool;
    struct ps_pool_options options = {.chunks = named("of pool")};
    (void)ps_pool_init(&pool, BLOCK, 0, &options);
    while (count-- > 0) {
        use(ps_pool_alloc(&pool));
    }
    (void)ps_pool_enlist(&pool);
}

KEPT_OUT static void hold_pools(size_t count) {
    static struct ps_pools pools;
    struct ps_chunk_options options = named("of pools");
    ps_pools_init(&pools, &options);
    while (count-- > 0) {
        use(ps_pools_alloc(&pools, BLOCK));
    }
    (void)ps_pools_enlist(&pools);
}

KEPT_OUT static void hold_region(size_t count) {
    struct ps_region_options options = {.chunks = named("of region")};
    struct ps_region *region = ps_region_create(&options);
    while (count-- > 0) {
        use(ps_region_alloc(region, BLOCK));
    }
    (void)ps_region_enlist(region);
}

KEPT_OUT static void hold_stack(size_t count) {
    struct ps_stack_options options = {.chunks = named("of stack")};
    struct ps_stack *stack = ps_stack_create(&options);
    (void)ps_stack_push(stack);
    while (count-- > 0) {
        use(ps_stack_alloc(stack, BLOCK));
    }
    (void)ps_stack_enlist(stack);
}

KEPT_OUT static void hold_fifo(size_t count) {
    struct ps_fifo_options options = {.chunks = named("of fifo")};
    struct ps_fifo *fifo = ps_fifo_create(&options);
    while (count-- > 0) {
        use(ps_fifo_alloc(fifo, BLOCK));
    }
    (void)ps_fifo_enlist(fifo);
}

KEPT_OUT static void hold_ring(size_t count) {
    struct ps_ring_options options = {.chunks = named("of ring")};
    struct ps_ring *ring = ps_ring_create(&options);
    (void)ps_ring_begin(ring);
    while (count-- > 0) {
        use(ps_ring_alloc(ring, BLOCK));
    }
    (void)ps_ring_enlist(ring);
}

KEPT_OUT static void hold_slots(size_t count) {
    static struct ps_slots slots;
    struct ps_slots_options options = {.chunks = named("of slots")};
    (void)ps_slots_init(&slots, BLOCK, 0, &options);
    while (count-- > 0) {
        void *object = NULL;
        (void)ps_slots_insert(&slots, &object);
        use(object);
    }
    (void)ps_slots_enlist(&slots);
}

KEPT_OUT static void hold_bounded(size_t count) {
    struct ps_bounded_options options = {.chunks = named("of bounded")};
    struct ps_bounded *pool = ps_bounded_create(BLOCK, 0, count, &options);
    while (count-- > 0) {
        use(ps_bounded_alloc(pool));
    }
    (void)ps_bounded_enlist(pool);
}

KEPT_OUT static void hold_intrusive(size_t count) {
    static struct ps_intrusive pool;
    struct ps_intrusive_options options = {.chunks = named("of intrusive"),
                                           .bytes = BLOCK + sizeof(struct ps_intrusive_item)};
    (void)ps_intrusive_init(&pool, &options);
    while (count-- > 0) {
        struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
        use(item + 1);
    }
    struct ps_intrusive_stats stats;
    ps_intrusive_stats(&pool, &stats);
    printf("%zu intrusive of intrusive\n", stats.reserved_bytes);
}

KEPT_OUT static void hold_tlsf(size_t count) {
    struct ps_tlsf_options options = {.chunks = named("of tlsf")};
    struct ps_tlsf *tlsf = ps_tlsf_create(&options);
    while (count-- > 0) {
        use(ps_tlsf_alloc(tlsf, BLOCK));
    }
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    printf("%zu tlsf of tlsf\n", stats.chunk_bytes);
}

KEPT_OUT static void hold_slices(size_t count) { /* without a pool, thus without a name */
    while (count-- > 0) {
        use(ps_slice_alloc(BLOCK));
    }
}

/* ---- one call site ---- */

KEPT_OUT static void fill(struct ps_region *region, size_t bytes) {
    for (size_t i = 0; i < bytes / BLOCK; i++) {
        use(ps_region_alloc(region, BLOCK));
    }
}

static struct ps_region *region_of(const char *name, struct ps_source *source) {
    struct ps_region_options options = {.chunks = {.name = name, .source = source}};
    return ps_region_create(&options);
}

KEPT_OUT static void hold_two(void) {
    struct ps_region *left = region_of("left", NULL);
    struct ps_region *right = region_of("right", NULL);
    (void)ps_region_enlist(left);
    (void)ps_region_enlist(right);
    for (int i = 0; i < 4; i++) {
        fill(left, 3 * MIB);
        fill(right, MIB);
    }
}

/* A destroyed pool. The memory of its name remains, with other contents. */
KEPT_OUT static void hold_nothing(void) {
    char name[] = "gone";
    struct ps_region *gone = region_of(name, NULL);
    fill(gone, HELD);
    ps_region_destroy(gone);
    memset(name, '#', sizeof name - 1);
}

/* Two requests of one name, one after the other; another name at the same address. */
KEPT_OUT static void hold_renamed(void) {
    char name[] = "first";
    struct ps_region *region = region_of(name, NULL);
    fill(region, HELD);
    strcpy(name, "other");
    fill(region, HELD);
    ps_region_set_name(region, NULL);
    fill(region, HELD);
}

/* ---- other sources ---- */

KEPT_OUT static void hold_sources(void) {
    static struct ps_source_account account;
    ps_source_account_init(&account, NULL, 0);
    struct ps_region *regions[] = {region_of("over account", &account.source),
                                   region_of("over malloc", ps_source_malloc())};
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        (void)ps_region_enlist(regions[i]);
        fill(regions[i], HELD);
    }
}

/* ---- names ---- */

KEPT_OUT static void hold_names(void) {
    static const char *const names[] = {
        "",
        "region",
        "quoted \"name\"\n\033[31m",
        "a name of more than forty bytes, which is cut off",
        "cut within a character of two bytes .\xc3\xa9\xc3\xa9",
        "malloc",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fill(region_of(names[i], NULL), HELD);
    }
}

int main(int count, char **words) {
    static void (*const holders[])(size_t) = {
        hold_pool,  hold_pools,   hold_region,    hold_stack, hold_fifo,   hold_ring,
        hold_slots, hold_bounded, hold_intrusive, hold_tlsf,  hold_slices,
    };
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        holders[i](HELD / BLOCK);
    }
    hold_two();
    hold_nothing();
    hold_renamed();
    hold_sources();
    hold_names();
    ps_pools_each(tell, NULL);
    (void)fflush(stdout);
    if (count > 1 && strcmp(words[1], "kill") == 0) {
        (void)raise(SIGKILL);
    }
    return 0;
}
