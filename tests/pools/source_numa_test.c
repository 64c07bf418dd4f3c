/* SPDX-License-Identifier: MIT */
/*
 * Memory of chosen NUMA nodes as a source: where pages come to lie, refusals, systems without. A
 * machine of one node has node 0; systems without NUMA are played by a filter of system calls.
 */
#include <poolshim/pool.h>

#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "tests/pools/modes.h"
#include "tests/pools/refused_call.h"
#include "tests/pools/source_chunks.h"
#include "tests/unit/fresh.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* From the kernel's uapi/linux/mempolicy.h. */
#define MODE_PREFERRED 1
#define MODE_BIND 2
#define MODE_INTERLEAVE 3
#define MODE_LOCAL 4
#define OF_NODE 1 /* flags of get_mempolicy */
#define OF_ADDRESS 2

static uint64_t nodes_or_skip(void) {
    errno = 0;
    uint64_t nodes = ps_numa_nodes();
    if (nodes == 0) {
        CHECK(errno == ENOSYS || errno == EPERM);
        UNIT_SKIP(errno == EPERM ? "a sandbox forbids the system calls of NUMA"
                                 : "the system has no NUMA");
    }
    return nodes;
}

/* What get_mempolicy says of an address: its policy, or the node of its page. */
static int ask(const void *address, unsigned long flags) {
    int answer = -1;
    CHECK_EQ(ps_syscall6(SYS_get_mempolicy, (long)&answer, 0, 0, (long)address,
                         (long)(flags | OF_ADDRESS), 0),
             0);
    return answer;
}

static void unmap(struct ps_source_numa *numa, char *chunk, size_t bytes) {
    give(&numa->source, chunk, bytes);
    CHECK(!ps_os_is_mapped(chunk));
}

TEST(pages_lie_on_the_node_that_is_named) {
    uint64_t nodes = nodes_or_skip();
    for (int node = 0; node < 64; node++) {
        if ((nodes >> node & 1) == 0) {
            continue;
        }
        for (unsigned flags = 0; flags <= (PS_MMAP_GUARD | PS_MMAP_HUGE); flags++) {
            struct ps_source_numa numa;
            REQUIRE(ps_source_numa_init(&numa, PS_NUMA_BIND, (uint64_t)1 << node, flags));
            for (size_t bytes = 1; bytes <= 3 * MIB; bytes = bytes * 7 + 3) {
                char *chunk = take(&numa.source, bytes, 64);
                REQUIRE(chunk != NULL);
                CHECK_EQ(ask(chunk, 0), MODE_BIND);
                CHECK_EQ(ask(chunk + bytes - 1, 0), MODE_BIND);
                CHECK_EQ(ask(chunk, OF_NODE), node);
                CHECK_EQ(ask(chunk + bytes - 1, OF_NODE), node);
                unmap(&numa, chunk, bytes);
            }
        }
    }
}

TEST(each_policy_reaches_the_system) {
    uint64_t nodes = nodes_or_skip();
    uint64_t lowest = nodes & (0 - nodes);
    const struct {
        enum ps_numa_policy policy;
        uint64_t nodes;
        int mode;
    } rows[] = {
        {PS_NUMA_BIND, nodes, MODE_BIND},
        {PS_NUMA_INTERLEAVE, nodes, MODE_INTERLEAVE},
        {PS_NUMA_PREFERRED, lowest, MODE_PREFERRED},
        {PS_NUMA_PREFERRED, 0, MODE_LOCAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ps_source_numa numa;
        errno = EDOM;
        REQUIRE(ps_source_numa_init(&numa, rows[i].policy, rows[i].nodes, 0));
        CHECK_EQ(errno, EDOM);
        char *chunk = take(&numa.source, 100 * KIB, 64 * KIB);
        REQUIRE(chunk != NULL);
        int mode = ask(chunk, 0);
        /* Before Linux 5.14 the local policy is reported as the preferred one of no node. */
        CHECK(mode == rows[i].mode || (rows[i].mode == MODE_LOCAL && mode == MODE_PREFERRED));
        unmap(&numa, chunk, 100 * KIB);
    }
}

TEST(interleaved_pages_lie_on_all_nodes_in_turn) {
    uint64_t nodes = nodes_or_skip();
    struct ps_source_numa numa;
    REQUIRE(ps_source_numa_init(&numa, PS_NUMA_INTERLEAVE, nodes, 0));
    char *chunk = take(&numa.source, 4 * MIB, 16);
    REQUIRE(chunk != NULL);
    uint64_t seen = 0;
    for (size_t offset = 0; offset < 4 * MIB; offset += ps_os_page_bytes()) {
        seen |= (uint64_t)1 << ask(chunk + offset, OF_NODE);
    }
    CHECK_EQ(seen, nodes);
    unmap(&numa, chunk, 4 * MIB);
}

TEST(a_pool_lies_on_a_node) {
    uint64_t nodes = nodes_or_skip();
    NEEDS_CHUNKS();
    struct ps_source_numa numa;
    REQUIRE(ps_source_numa_init(&numa, PS_NUMA_BIND, nodes & (0 - nodes), 0));
    struct ps_pool_options options = {.chunks = {.source = &numa.source}};
    struct ps_pool pool;
    REQUIRE(ps_pool_init(&pool, 100, 0, &options));
    for (int i = 0; i < 1000; i++) {
        char *object = ps_pool_alloc(&pool);
        REQUIRE(object != NULL);
        CHECK_EQ(ask(object, 0), MODE_BIND);
    }
    ps_pool_destroy(&pool);
}

TEST(what_cannot_be_is_refused) {
    uint64_t nodes = nodes_or_skip();
    struct ps_source_numa numa;
    CHECK(!ps_source_numa_init(&numa, PS_NUMA_BIND, 0, 0) && errno == EINVAL);
    CHECK(!ps_source_numa_init(&numa, PS_NUMA_INTERLEAVE, 0, 0) && errno == EINVAL);
    CHECK(!ps_source_numa_init(&numa, PS_NUMA_PREFERRED, 3, 0) && errno == EINVAL);
    CHECK(!ps_source_numa_init(&numa, (enum ps_numa_policy)7, nodes, 0) && errno == EINVAL);
    CHECK(take(&numa.source, 1, 1) == NULL && errno == ENOMEM);
    if (~nodes != 0) { /* one that is not there, alone and beside those that are */
        uint64_t absent = ~nodes & (0 - ~nodes);
        CHECK(!ps_source_numa_init(&numa, PS_NUMA_BIND, absent, 0) && errno == EINVAL);
        CHECK(!ps_source_numa_init(&numa, PS_NUMA_BIND, nodes | absent, 0) && errno == EINVAL);
        CHECK(!ps_source_numa_init(&numa, PS_NUMA_PREFERRED, absent, 0) && errno == EINVAL);
    }
    REQUIRE(ps_source_numa_init(&numa, PS_NUMA_BIND, nodes, 0));
    CHECK(take(&numa.source, SIZE_MAX, 1) == NULL && errno == ENOMEM);
    CHECK(take(&numa.source, 1, 3) == NULL && errno == EINVAL);
}

static void check_without(int error) {
    uint64_t nodes = nodes_or_skip();
    struct ps_source_numa before;
    REQUIRE(ps_source_numa_init(&before, PS_NUMA_BIND, nodes, 0));
    refuse_call(SYS_mbind, error);
    refuse_call(SYS_get_mempolicy, error);
    errno = 0;
    CHECK_EQ(ps_numa_nodes(), 0);
    CHECK_EQ(errno, error);
    struct ps_source_numa numa;
    CHECK(!ps_source_numa_init(&numa, PS_NUMA_BIND, 1, 0));
    CHECK_EQ(errno, error);
    CHECK(!ps_source_numa_init(&numa, PS_NUMA_PREFERRED, 0, 0));
    CHECK_EQ(errno, error);
    CHECK(take(&numa.source, 4096, 16) == NULL && errno == ENOMEM);
    /* And not on some other node. */
    CHECK(take(&before.source, 4096, 16) == NULL && errno == ENOMEM);
}

FRESH_TEST(a_system_without_numa_says_so) { check_without(ENOSYS); }

FRESH_TEST(a_sandbox_that_forbids_it_is_told_apart) { check_without(EPERM); }

UNIT_MAIN
