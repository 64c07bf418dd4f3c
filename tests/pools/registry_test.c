/* SPDX-License-Identifier: MIT */
/*
 * The registry of pools: what a walk reports of every family, and pools that come and go during a
 * walk and in other threads. registry_leaks_test.c has the leaks.
 */
#include <poolshim/bounded.h>
#include <poolshim/fifo.h>
#include <poolshim/pages.h>
#include <poolshim/pools.h>
#include <poolshim/region.h>
#include <poolshim/registry.h>
#include <poolshim/ring.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>

#include "tests/pools/modes.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#define INFOS 64

struct seen {
    struct ps_pool_info infos[INFOS];
    char names[INFOS][48];
    size_t count;
};

static void note(const struct ps_pool_info *info, void *context) {
    struct seen *seen = context;
    REQUIRE(seen->count < INFOS);
    strcpy(seen->names[seen->count], info->name);
    seen->infos[seen->count] = *info;
    seen->infos[seen->count].name = seen->names[seen->count];
    seen->count++;
}

static struct seen *walk(void) {
    static struct seen seen;
    seen.count = 0;
    ps_pools_each(note, &seen);
    return &seen;
}

static const struct ps_pool_info *find(const char *name) {
    const struct seen *seen = walk();
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->infos[i].name, name) == 0) {
            return &seen->infos[i];
        }
    }
    return NULL;
}

static struct ps_chunk_options named(const char *name) {
    return (struct ps_chunk_options){.name = name};
}

/* ---- what a walk reports ---- */

static void check_info(const char *family, const char *name, const void *pool) {
    const struct ps_pool_info *info = find(name);
    REQUIRE(info != NULL);
    CHECK_STR_EQ(info->family, family);
    CHECK_PTR_EQ(info->pool, pool);
    CHECK_CMP(info->peak_bytes, >=, info->total_bytes);
    CHECK_EQ(info->total_bytes == 0, info->chunk_count == 0);
    CHECK_NE(info->thread, 0);
}

FRESH_TEST(every_family_is_listed_by_its_name_until_it_ends) {
    struct ps_pool pool;
    struct ps_pool_options pool_options = {.chunks = named("a pool")};
    struct ps_pools pools;
    struct ps_chunk_options pools_options = named("sizes");
    struct ps_slots slots;
    struct ps_slots_options slots_options = {.chunks = named("handles")};
    struct ps_region_options region_options = {.chunks = named("a region")};
    struct ps_stack_options stack_options = {.chunks = named("a stack")};
    struct ps_fifo_options fifo_options = {.chunks = named("a fifo")};
    struct ps_ring_options ring_options = {.chunks = named("a ring")};
    struct ps_bounded_options bounded_options = {.chunks = named("bounds")};
    REQUIRE(ps_pool_init(&pool, 24, 0, &pool_options));
    ps_pools_init(&pools, &pools_options);
    REQUIRE(ps_slots_init(&slots, 24, 0, &slots_options));
    struct ps_region *region = ps_region_create(&region_options);
    struct ps_stack *stack = ps_stack_create(&stack_options);
    struct ps_fifo *fifo = ps_fifo_create(&fifo_options);
    struct ps_ring *ring = ps_ring_create(&ring_options);
    struct ps_bounded *bounded = ps_bounded_create(24, 0, 100, &bounded_options);
    CHECK_EQ(walk()->count, 0);
    for (int round = 0; round < 2; round++) { /* listing again changes nothing */
        CHECK(ps_pool_enlist(&pool) && ps_pools_enlist(&pools) && ps_slots_enlist(&slots));
        CHECK(ps_region_enlist(region) && ps_stack_enlist(stack) && ps_fifo_enlist(fifo));
        CHECK(ps_ring_enlist(ring) && ps_bounded_enlist(bounded));
        CHECK_EQ(walk()->count, 8);
    }
    check_info("pool", "a pool", &pool);
    check_info("pools", "sizes", &pools);
    check_info("slots", "handles", &slots);
    check_info("region", "a region", region);
    check_info("stack", "a stack", stack);
    check_info("fifo", "a fifo", fifo);
    check_info("ring", "a ring", ring);
    check_info("bounded", "bounds", bounded);
    size_t number = 0;
    for (size_t i = 0; i < walk()->count; i++) {
        CHECK_CMP(walk()->infos[i].number, >, number);
        number = walk()->infos[i].number;
    }
    ps_pool_destroy(&pool);
    ps_region_destroy(region);
    ps_fifo_destroy(fifo);
    CHECK_EQ(walk()->count, 5);
    CHECK(find("a region") == NULL && find("a stack") != NULL);
    ps_pools_destroy(&pools);
    ps_slots_destroy(&slots);
    ps_stack_destroy(stack);
    ps_ring_destroy(ring);
    ps_bounded_destroy(bounded);
    CHECK_EQ(walk()->count, 0);
}

FRESH_TEST(bytes_and_chunks_are_those_of_the_statistics) {
    NEEDS_CHUNKS();
    struct ps_pool_stats stats;
    struct ps_pool pool;
    struct ps_pool_options options = {.chunks = named("nodes")};
    REQUIRE(ps_pool_init(&pool, 64, 0, &options));
    void *before = ps_pool_alloc(&pool); /* chunks from before the listing count too */
    REQUIRE(ps_pool_enlist(&pool));
    CHECK_CMP(find("nodes")->total_bytes, >, 0);
    REQUIRE(ps_pool_reserve(&pool, 10000));
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(find("nodes")->total_bytes, stats.total_bytes);
    CHECK_EQ(find("nodes")->chunk_count, stats.chunk_count);
    size_t peak_bytes = find("nodes")->peak_bytes;
    CHECK_CMP(peak_bytes, >=, stats.total_bytes);
    ps_pool_free(&pool, before);
    CHECK_CMP(ps_pool_trim_to(&pool, 0), >, 0);
    ps_pool_stats(&pool, &stats);
    CHECK_EQ(find("nodes")->total_bytes, stats.total_bytes);
    CHECK_EQ(find("nodes")->peak_bytes, peak_bytes);
    struct ps_pool moved;
    ps_pool_move(&moved, &pool);
    CHECK_PTR_EQ(find("nodes")->pool, &moved);
    ps_pool_destroy(&pool);
    CHECK_EQ(walk()->count, 1);
    ps_pool_destroy(&moved);
    CHECK_EQ(walk()->count, 0);
}

FRESH_TEST(all_classes_of_sizes_count_in_one_line) {
    NEEDS_CHUNKS();
    struct ps_pools pools;
    struct ps_pools_stats stats;
    ps_pools_init(&pools, NULL);
    CHECK(ps_pools_alloc(&pools, 100) != NULL);
    REQUIRE(ps_pools_enlist(&pools));
    CHECK(ps_pools_alloc(&pools, 1000) != NULL && ps_pools_alloc(&pools, 100000) != NULL);
    ps_pools_stats(&pools, &stats);
    CHECK_EQ(walk()->count, 1);
    CHECK_EQ(find("pools")->total_bytes, stats.total_bytes);
    CHECK_EQ(find("pools")->chunk_count, stats.chunk_count);
    ps_pools_reset(&pools);
    ps_pools_stats(&pools, &stats);
    CHECK_EQ(find("pools")->total_bytes, stats.total_bytes);
    ps_pools_destroy(&pools);
}

FRESH_TEST(names_are_copied_and_cut) {
    char name[100];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct ps_region_options options = {.chunks = named(name)};
    struct ps_region *region = ps_region_create(&options);
    REQUIRE(ps_region_enlist(region));
    CHECK_EQ(strlen(walk()->infos[0].name), 39);
    ps_region_set_name(region, "short");
    CHECK(find("short") != NULL);
    ps_region_destroy(region);
}

FRESH_TEST(the_table_has_a_line_for_each_pool) {
    struct ps_region_options options = {.chunks = named("sessions")};
    struct ps_region *region = ps_region_create(&options);
    REQUIRE(ps_region_enlist(region));
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    CHECK(ps_dump_stats(file));
    fclose(file);
    CHECK(strstr(text, "region       sessions ") != NULL);
    CHECK(strstr(text, "\n1 pools listed: ") != NULL);
    CHECK(strstr(text, "\npage cache: ") != NULL);
    free(text);
    FILE *full = fopen("/dev/full", "w");
    CHECK(!ps_dump_stats(full));
    fclose(full);
    ps_region_destroy(region);
}

/* ---- pools that come and go ---- */

static struct ps_region *regions[40];

static void destroy_while_walking(const struct ps_pool_info *info, void *context) {
    size_t *visited = context;
    for (size_t i = 0; i < 40; i++) { /* this one, and one far away */
        if (regions[i] == info->pool) {
            ps_region_destroy(regions[i]);
            regions[i] = NULL;
            size_t other = (i + 20) % 40;
            ps_region_destroy(regions[other]);
            regions[other] = NULL;
        }
    }
    ++*visited;
}

FRESH_TEST(a_visit_may_destroy_and_list_pools) {
    for (size_t i = 0; i < 40; i++) {
        regions[i] = ps_region_create(NULL);
        REQUIRE(ps_region_enlist(regions[i]));
    }
    size_t visited = 0;
    ps_pools_each(destroy_while_walking, &visited);
    CHECK_CMP(visited, >=, 20);
    CHECK_CMP(visited, <=, 40);
    CHECK_EQ(walk()->count, 0);
}

static uint32_t is_over_flag;

static void *come_and_go(void *context) {
    size_t rounds = *(size_t *)context;
    for (size_t i = 0; i < rounds; i++) {
        struct ps_region_options options = {.chunks = named("passing")};
        struct ps_region *region = ps_region_create(&options);
        REQUIRE(region != NULL && ps_region_enlist(region));
        CHECK(ps_region_alloc(region, 20000) != NULL);
        ps_region_destroy(region);
    }
    __atomic_store_n(&is_over_flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void check_passing(const struct ps_pool_info *info, void *context) {
    (void)context;
    CHECK_STR_EQ(info->name, "passing");
    CHECK_STR_EQ(info->family, "region");
}

FRESH_TEST(threads_list_pools_while_another_walks) {
    size_t rounds = 3000 / FRESH_SLOWNESS;
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, come_and_go, &rounds) == 0);
    }
    while (__atomic_load_n(&is_over_flag, __ATOMIC_ACQUIRE) == 0) {
        ps_pools_each(check_passing, NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(walk()->count, 0);
}

/* ---- faults ---- */

FRESH_TEST(without_memory_a_pool_is_not_listed_and_works) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* a limit of addresses is below what a sanitizer needs */
#endif
    struct ps_pool pool;
    struct ps_pool_options options = {.chunks = {.source = ps_source_malloc()}};
    REQUIRE(ps_pool_init(&pool, 24, 0, &options));
    void *object = ps_pool_alloc(&pool);
    struct rlimit limit = {.rlim_cur = (rlim_t)1 << 20, .rlim_max = RLIM_INFINITY};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    while (ps_pages_alloc(PS_PAGE_BYTES, 0) != NULL) {
    }
    errno = 0;
    CHECK(!ps_pool_enlist(&pool));
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(walk()->count, 0);
    ps_pool_free(&pool, object);
    CHECK(is_malloc_mode() || ps_pool_alloc(&pool) == object);
    ps_pool_destroy(&pool);
}

UNIT_MAIN
