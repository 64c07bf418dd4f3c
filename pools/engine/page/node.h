/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes. A page lies on the node of the processor that touches it first; processors of other
 * nodes reach it more slowly. So an arena serves the threads of one node (page_cache.h), and so
 * do slabs and regions of medium blocks. Other nodes get it while memory is short, and when the
 * system refuses more. docs/decisions/numa.md has the reasons.
 *
 * Nodes have numbers below PS_NODES; those beyond share them. PS_NODE_APART is none of them. Until
 * a process has a second thread, and on a machine of one node, there is node 0, at the price of a
 * load and a branch. Any thread. No locks.
 */
#ifndef PS_PAGE_NODE_H
#define PS_PAGE_NODE_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdint.h>

#define PS_NODES 7
#define PS_NODE_APART 7   /* of arenas that serve partitions alone, on any node: extents.h */
#define PS_NODE_CPUS 1024 /* processors beyond are taken for those of node 0 */

/* The highest number, and the node of each processor; unit tests set them. */
extern PS_HIDDEN uint32_t ps_node_x_last;
extern PS_HIDDEN uint8_t ps_node_x_of_cpu[PS_NODE_CPUS];

/* Called before a process creates a thread. Reads the nodes when called first: see ps_nodes_read
 * for the cost. */
void ps_node_start(void);

/* The node of this processor, on a machine of several nodes. */
uint32_t ps_node_of_cpu(void);

PS_INLINE uint32_t ps_node_last(void) {
    return ps_load_relaxed(&ps_node_x_last); /* relaxed: what was touched before is on some node */
}

/* Loop over the nodes of arenas. */
#define PS_NODE_EACH(node)                                                                         \
    uint32_t node = 0;                                                                             \
    node <= PS_NODE_APART;                                                                         \
    node = node < ps_node_last() ? node + 1 : node < PS_NODE_APART ? PS_NODE_APART : node + 1

/* The node of the processor that runs the calling thread, which may run elsewhere a moment later.
 */
PS_INLINE uint32_t ps_node_here(void) {
    return PS_LIKELY(ps_node_last() == 0) ? 0 : ps_node_of_cpu();
}

#endif
