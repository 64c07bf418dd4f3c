/* SPDX-License-Identifier: MIT */
/*
 * The NUMA nodes of the machine, from /sys/devices/system/node. Opens, reads and closes each file
 * within the call; allocates nothing, leaves errno alone. No locks, no state. Called by
 * page/node.c.
 */
#ifndef PS_OS_NODES_H
#define PS_OS_NODES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns how many nodes there are up to the last that has memory, at most `most`; further ones
 * share the numbers below it. If there are several, stores the node of each processor below `cpus`
 * that is on one. 1, and nothing stored: one, or the system does not tell.
 *
 * root: "", or, in tests, a folder with these files. Costs three system calls, and as many again
 * per node where there are several.
 */
uint32_t ps_nodes_read(const char *root, uint32_t most, uint8_t *of_cpu, size_t cpus);

#endif
