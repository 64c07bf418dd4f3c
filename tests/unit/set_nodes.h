/* SPDX-License-Identifier: MIT */
/* A machine of three NUMA nodes of one processor each, for tests over the fake OS: processor n is
 * of node n. */
#ifndef PS_TESTS_UNIT_SET_NODES_H
#define PS_TESTS_UNIT_SET_NODES_H

#include "pools/engine/page/node.h"

#define NODES 3

static inline void set_nodes(void) {
    ps_node_x_last = NODES - 1;
    for (uint8_t i = 0; i < NODES; i++) {
        ps_node_x_of_cpu[i] = i;
    }
}

#endif
