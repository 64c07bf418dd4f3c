/* SPDX-License-Identifier: MIT */
/* The NUMA nodes of the machine, read from trees of files that each test writes. */
#include "pools/engine/os/nodes.h"

#include "tests/unit/file_tree.h"

#include <errno.h>

#define CPUS 16
#define MOST 8

static uint8_t of_cpu[CPUS];

static void put_node(unsigned node, const char *cpus) {
    char path[100];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
    put(path, cpus);
}

static void set_up(const char *nodes) {
    memset(of_cpu, 99, sizeof of_cpu);
    put("/sys/devices/system/node/has_memory", nodes);
}

static uint32_t read_nodes(void) {
    errno = 4711;
    uint32_t count = ps_nodes_read(root, MOST, of_cpu, CPUS);
    CHECK_EQ(errno, 4711);
    return count;
}

TREE_TEST(a_machine_of_one_node_has_no_table) {
    set_up("0\n");
    put_node(0, "0-15\n");
    CHECK_EQ(read_nodes(), 1);
    CHECK_EQ(of_cpu[0], 99);
}

TREE_TEST(without_the_files_there_is_one_node) { CHECK_EQ(read_nodes(), 1); }

TREE_TEST(processors_belong_to_the_node_that_lists_them) {
    set_up("0-1\n");
    put_node(0, "0-3,8-11\n");
    put_node(1, "4-7,12,14-15\n");
    CHECK_EQ(read_nodes(), 2);
    for (size_t cpu = 0; cpu < CPUS; cpu++) {
        CHECK_EQ(of_cpu[cpu], cpu == 13 ? 99 : cpu / 4 % 2);
    }
}

TREE_TEST(gaps_in_the_numbers_and_nodes_without_processors_are_allowed) {
    set_up("0,2\n");
    put_node(0, "0-1\n");
    put_node(1, "\n");
    put_node(2, "2\n");
    CHECK_EQ(read_nodes(), 3);
    CHECK_EQ(of_cpu[1], 0);
    CHECK_EQ(of_cpu[2], 2);
}

TREE_TEST(nodes_beyond_the_limit_share_numbers) {
    set_up("0-15\n");
    for (unsigned node = 0; node < 16; node++) {
        char cpu[20];
        snprintf(cpu, sizeof cpu, "%u\n", node);
        put_node(node, cpu);
    }
    CHECK_EQ(read_nodes(), MOST);
    CHECK_EQ(of_cpu[7], 7);
    CHECK_EQ(of_cpu[8], 0);
    CHECK_EQ(of_cpu[15], 7);
}

TREE_TEST(processors_beyond_the_table_are_left_out) {
    set_up("0-1\n");
    put_node(0, "0-7\n");
    put_node(1, "8-18446744073709551615\n");
    CHECK_EQ(read_nodes(), 2);
    CHECK_EQ(of_cpu[15], 1);
}

TREE_TEST(garbage_is_one_node) {
    static const char *const texts[] = {
        "", "\n", "x", "-1\n", "99999999999999999999999\n", "0-\n", "0,\n", "0-x\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        set_up(texts[i]);
        put_node(0, "0-15\n");
        CHECK_EQ(read_nodes(), 1);
        CHECK_EQ(of_cpu[0], 99);
    }
}

UNIT_MAIN
