/* SPDX-License-Identifier: MIT */
/*
 * See node.h.
 */
#include "pools/engine/page/node.h"

#include "pools/engine/os/nodes.h"
#include "pools/engine/os/os.h"

uint32_t ps_node_x_last;
PS_SPARSE uint8_t ps_node_x_of_cpu[PS_NODE_CPUS];

static uint32_t x_is_started;

void ps_node_start(void) {
    /* relaxed: one thread reads the files; the others do without until it has. */
    if (ps_or_relaxed(&x_is_started, 1u) != 0) {
        return;
    }
    uint32_t count = ps_nodes_read("", PS_NODES, ps_node_x_of_cpu, PS_NODE_CPUS);
    ps_store_relaxed(&ps_node_x_last, count - 1); /* relaxed: see ps_node_last */
}

uint32_t ps_node_of_cpu(void) {
    uint32_t cpu = ps_os_cpu();
    /* relaxed: either number is one of a node. */
    return cpu < PS_NODE_CPUS ? ps_load_relaxed(&ps_node_x_of_cpu[cpu]) : 0;
}
