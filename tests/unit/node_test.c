// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes in the page layer: memory that a node has touched is allocated there again; another
 * node's memory serves if nothing else does. The heap layer's tests are in node_heap_test.c.
 */
#include "pools/engine/page/node.h"

#include "pools/engine/page/medium.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"
#include "tests/unit/page_cache_check.h"
#include "tests/unit/set_nodes.h"

#define MIB ((size_t)1 << 20)
#define ARENA_GRANULES (2 * MIB / PS_GRANULE_BYTES) /* of the first arena */

static void start_pages(void) {
    const struct ps_config config = PS_CONFIG_DEFAULT;
    ps_page_cache_start(&config);
    ps_retention_set_delay(config.purge_delay_ms);
    set_nodes();
}

static struct ps_run *take_on(uint32_t node, size_t granules) {
    fake_os_set_cpu(node);
    struct ps_run *run = ps_page_cache_take(granules, 1);
    REQUIRE(run != NULL);
    return run;
}

static uint64_t dirty_granules(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.dirty_granules;
}

FRESH_TEST(the_node_is_that_of_the_processor) {
    fake_os_set_cpu(2);
    CHECK_EQ(ps_node_here(), 0);
    set_nodes();
    CHECK_EQ(ps_node_here(), 2);
    fake_os_set_cpu(PS_NODE_CPUS + 2);
    CHECK_EQ(ps_node_here(), 0);
}

FRESH_TEST(the_nodes_are_read_once) {
    ps_node_start();
    ps_node_x_last = 5;
    ps_node_start();
    CHECK_EQ(ps_node_x_last, 5);
}

FRESH_TEST(a_run_serves_the_node_that_has_touched_it) {
    start_pages();
    struct ps_run *run = take_on(1, 4);
    ps_page_cache_give(run);
    struct ps_run *other = take_on(2, 4);
    CHECK(!other->is_dirty);
    CHECK(other != run);
    CHECK_PTR_EQ(take_on(1, 4), run);
    CHECK(run->is_dirty);
}

FRESH_TEST(a_part_of_a_run_stays_on_its_node) {
    start_pages();
    struct ps_run *run = take_on(1, 8);
    fake_os_set_cpu(2);
    ps_page_cache_shrink(run, 2);
    CHECK(!take_on(2, 6)->is_dirty);
    struct ps_run *tail = take_on(1, 3);
    CHECK(tail->is_dirty);
    CHECK_PTR_EQ(tail->base, run->base + 2 * PS_GRANULE_BYTES);
    CHECK_EQ(tail->node, 1);
    CHECK(take_on(1, 3)->is_dirty); /* the rest of it */
}

static struct ps_run *before, *after; /* as start_neighbours takes them */

/* Runs in arenas of nodes 1 and 0, the former right before the latter, of 2 MiB each. */
static bool start_neighbours(void) {
    start_pages();
    fake_os_limit_reserve(2 * MIB);
    after = take_on(0, ARENA_GRANULES);
    fake_os_place_next(after->base - 2 * MIB);
    fake_os_set_cpu(1);
    before = ps_page_cache_take(ARENA_GRANULES, 1);
    fake_os_limit_reserve(SIZE_MAX);
    return before != NULL && before->base + 2 * MIB == after->base;
}

#define NEIGHBOURS_TEST(claim)                                                                     \
    static void claim##_of_neighbours(void);                                                       \
    FRESH_TEST(claim) {                                                                            \
        if (!start_neighbours()) {                                                                 \
            UNIT_SKIP("the addresses before an arena are taken");                                  \
        }                                                                                          \
        claim##_of_neighbours();                                                                   \
    }                                                                                              \
    static void claim##_of_neighbours(void)

NEIGHBOURS_TEST(neighbours_on_two_nodes_never_coalesce) {
    ps_page_cache_give(before);
    ps_page_cache_give(after);
    CHECK_EQ(before->granules, ARENA_GRANULES);
    CHECK(ps_purge_all(0));
    CHECK_EQ(before->granules, ARENA_GRANULES);
    CHECK_EQ(after->granules, ARENA_GRANULES);
    check_page_cache_sums();
    CHECK_PTR_EQ(take_on(1, 1)->base, before->base);
    CHECK_PTR_EQ(take_on(0, 1)->base, after->base);
}

NEIGHBOURS_TEST(a_run_is_not_extended_onto_another_node) {
    bool is_clean;
    ps_page_cache_give(after);
    CHECK(!ps_page_cache_extend(before, ARENA_GRANULES + 1, &is_clean));
    CHECK(ps_purge_all(0));
    CHECK(!ps_page_cache_extend(before, ARENA_GRANULES + 1, &is_clean));
}

NEIGHBOURS_TEST(a_dirty_run_is_not_joined_with_a_clean_one_of_another_node) {
    ps_page_cache_give(before);
    ps_page_cache_give_zero(after);
    CHECK_PTR_EQ(ps_page_cache_take_dirty(ARENA_GRANULES + 1), NULL);
    fake_os_set_cpu(1);
    CHECK_PTR_EQ(ps_page_cache_take_dirty(ARENA_GRANULES + 1), NULL);
    CHECK_PTR_EQ(ps_page_cache_take_dirty(ARENA_GRANULES), before);
}

FRESH_TEST(runs_of_other_nodes_serve_while_memory_is_short) {
    start_pages();
    struct ps_run *run = take_on(1, 4);
    ps_page_cache_give(run);
    ps_store_relaxed(&ps_retention_x_pressure, (uint32_t)PS_PRESSURE_NEAR);
    CHECK_PTR_EQ(take_on(2, 4), run);
    CHECK_EQ(run->node, 1);
}

FRESH_TEST(runs_of_other_nodes_serve_when_no_more_memory_is_to_be_had) {
    enum { LIMIT = 10000 };
    size_t taken[NODES] = {0};
    size_t count = 0;
    start_pages();
    for (uint32_t node = 0; node < NODES; node++) {
        ps_page_cache_give(take_on(node, 4)); /* dirty, and before clean ones */
    }
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE) | FAKE_OS_BIT(FAKE_OS_PROTECT));
    fake_os_set_cpu(2);
    uint32_t last = 2;
    for (struct ps_run *run; count < LIMIT && (run = ps_page_cache_take(4, 1)) != NULL; count++) {
        CHECK(run->node == last || taken[run->node] == 0); /* all of a node's, then the next's */
        last = run->node;
        taken[last]++;
    }
    for (uint32_t node = 0; node < NODES; node++) {
        CHECK_CMP(taken[node], >, 1);
    }
}

FRESH_TEST(present_runs_are_those_of_all_nodes) {
    start_pages();
    struct ps_run *run = take_on(1, 4);
    ps_page_cache_give(run);
    fake_os_set_cpu(2);
    CHECK_PTR_EQ(ps_page_cache_take_present(4, 1), run);
}

FRESH_TEST(what_is_refused_is_retried_on_all_nodes) {
    struct ps_page_counts counts;
    start_pages();
    for (uint32_t node = 0; node < NODES; node++) {
        ps_page_cache_give(take_on(node, 4));
    }
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_purge_all(0));
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.stuck_granules, 4 * NODES);
    CHECK(take_on(2, 1)->is_dirty); /* it is dirty in any case */
    fake_os_refuse(0);
    CHECK(ps_purge_all(0));
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.dirty_granules, 0);
}

FRESH_TEST(the_longest_runs_are_purged_first_whatever_their_node) {
    start_pages();
    struct ps_run *runs[NODES];
    for (uint32_t node = 0; node < NODES; node++) {
        runs[node] = take_on(node, 1 + 4 * (node ^ 1));
    }
    for (uint32_t node = 0; node < NODES; node++) {
        ps_page_cache_give(runs[node]);
    }
    CHECK_EQ(dirty_granules(), 5 + 1 + 13);
    CHECK_EQ(ps_purge_some(13), 13);
    CHECK(!runs[2]->is_dirty);
    CHECK(runs[0]->is_dirty && runs[1]->is_dirty);
    CHECK_EQ(ps_purge_some(5), 5);
    CHECK(runs[1]->is_dirty);
}

/* Every granule of a dirty run was last touched on the node that gets it. */
FRESH_TEST(no_node_gets_what_another_one_has_touched) {
    enum { RUNS = 60, ROUNDS = 20000 };
    static struct {
        struct ps_run *run;
        uint32_t node;
    } live[RUNS];
    start_pages();
    size_t reused = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t i = unit_random() % RUNS;
        fake_os_set_cpu((uint32_t)(unit_random() % NODES));
        if (live[i].run != NULL) {
            CHECK_EQ(*(uint64_t *)live[i].run->base, live[i].node + 1);
            if (live[i].run->granules > 1 && unit_random() % 4 == 0) {
                ps_page_cache_shrink(live[i].run, live[i].run->granules / 2);
            } else {
                ps_page_cache_give(live[i].run);
                live[i].run = NULL;
            }
        } else {
            struct ps_run *run = ps_page_cache_take(1 + unit_random() % 12, 1);
            REQUIRE(run != NULL);
            for (size_t granule = 0; granule < run->granules; granule++) {
                uint64_t *word = (uint64_t *)(run->base + granule * PS_GRANULE_BYTES);
                reused += run->is_dirty;
                CHECK(*word == 0 || (run->is_dirty && *word == ps_node_here() + 1));
                *word = ps_node_here() + 1;
            }
            live[i].run = run;
            live[i].node = ps_node_here();
        }
        if (round % 500 == 0) {
            (void)ps_purge_some(unit_random() % 64);
            check_page_cache_sums();
        }
    }
    CHECK_CMP(reused, >, ROUNDS);
}

/* ---- medium blocks ---- */

static char *medium_on(uint32_t node, size_t pages) {
    bool is_zero;
    fake_os_set_cpu(node);
    char *block = ps_medium_take(pages, 1, &is_zero);
    REQUIRE(block != NULL);
    CHECK_EQ(ps_medium_node_of(ps_medium_block_of(block, pages)), node);
    return block;
}

static void give_medium(const char *address, size_t pages) {
    ps_medium_block block = ps_medium_block_of(address, pages);
    ps_medium_give(&block, 1);
}

FRESH_TEST(a_region_serves_its_node) {
    start_pages();
    char *first = medium_on(1, 10);
    char *kept = medium_on(1, 10);
    give_medium(first, 10);
    char *other = medium_on(2, 10);
    CHECK(ps_page_map_slot(other)->run.base != ps_page_map_slot(kept)->run.base);
    CHECK_PTR_EQ(medium_on(1, 10), first);
}

FRESH_TEST(pages_and_regions_of_all_nodes_are_purged_and_returned) {
    struct ps_medium_counts counts;
    start_pages();
    char *blocks[NODES];
    for (uint32_t node = 0; node < NODES; node++) {
        blocks[node] = medium_on(node, 10);
        give_medium(medium_on(node, 20 + node), 20 + node);
    }
    ps_medium_count(&counts);
    CHECK_EQ(counts.dirty_pages, 20 + 21 + 22);
    CHECK(ps_medium_purge_all());
    ps_medium_count(&counts);
    CHECK_EQ(counts.dirty_pages, 0);
    for (uint32_t node = 0; node < NODES; node++) {
        give_medium(blocks[node], 10);
    }
    ps_medium_drop_empty(0);
    ps_medium_count(&counts);
    CHECK_EQ(counts.region_count, 0);
    check_page_cache_sums();
}

FRESH_TEST(refused_pages_of_any_node_are_retried) {
    struct ps_medium_counts counts;
    start_pages();
    (void)medium_on(2, 10);
    give_medium(medium_on(2, 20), 20);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_medium_purge_all());
    ps_medium_count(&counts);
    CHECK_CMP(counts.refused_pages, >, 0);
    fake_os_refuse(0);
    CHECK(ps_medium_purge_all());
    ps_medium_count(&counts);
    CHECK_EQ(counts.dirty_pages, 0);
}

FRESH_TEST(a_region_of_another_node_serves_when_no_more_memory_is_to_be_had) {
    start_pages();
    char *block = medium_on(1, 100);
    give_medium(medium_on(1, 100), 100);
    while (ps_page_cache_take(1, 1) != NULL) { /* ends: the addresses are used up */
        fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE) | FAKE_OS_BIT(FAKE_OS_PROTECT));
    }
    bool is_zero;
    fake_os_set_cpu(2);
    char *other = ps_medium_take(100, 1, &is_zero);
    REQUIRE(other != NULL);
    CHECK_EQ(ps_medium_node_of(ps_medium_block_of(other, 100)), 1);
    CHECK(block != other);
}

FRESH_TEST(the_longest_hole_of_a_node_is_purged_first) {
    bool is_zero;
    start_pages();
    (void)medium_on(1, 100);
    (void)medium_on(1, 100);
    give_medium(medium_on(1, 20), 20);
    (void)medium_on(1, 100);
    (void)medium_on(1, 10);
    give_medium(medium_on(1, 100), 100);
    CHECK_CMP(ps_medium_purge_some(20), >, 0);
    fake_os_set_cpu(1);
    REQUIRE(ps_medium_take(20, 1, &is_zero) != NULL);
    CHECK(!is_zero);
}

UNIT_MAIN
