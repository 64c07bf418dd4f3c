/* SPDX-License-Identifier: MIT */
/*
 * See nodes.h.
 */
#include "pools/engine/os/nodes.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/digits.h"
#include "pools/engine/os/syscall.h"

#include <stdbool.h>

#define NODES_LIMIT 1024 /* of any kernel */
#define PATH_BYTES 512
#define LIST_BYTES 4096 /* a page, which is all that the kernel prints */

/* Calls visit for each number of a list like "0-3,8", up to `limit`. */
static void visit_list(const char *list, uint64_t limit,
                       void (*visit)(uint64_t number, void *context), void *context) {
    uint64_t first;
    while (ps_file_number(&list, &first)) { /* ends: `list` moves */
        uint64_t last = first;
        if (*list == '-') {
            list++;
            if (!ps_file_number(&list, &last)) {
                return;
            }
        }
        for (uint64_t number = first; number <= last && number < limit; number++) {
            visit(number, context);
        }
        if (*list++ != ',') {
            return;
        }
    }
}

static void keep_last(uint64_t number, void *context) { *(uint64_t *)context = number; }

struct table {
    uint8_t *of_cpu;
    uint8_t node;
};

static void enter(uint64_t cpu, void *context) {
    const struct table *table = context;
    ps_store_relaxed(&table->of_cpu[cpu], table->node); /* relaxed: a hint */
}

/* Reads a list in the folder of the nodes, or in that of a node; empty if there is none. */
static void read_list(const char *root, const char *node, const char *name, char *list) {
    char path[PATH_BYTES] = "";
    bool fits = ps_path_append(path, sizeof path, root) &&
                ps_path_append(path, sizeof path, "/sys/devices/system/node/") &&
                ps_path_append(path, sizeof path, node) && ps_path_append(path, sizeof path, name);
    list[fits ? ps_file_read(path, list, LIST_BYTES - 1) : 0] = '\0';
}

uint32_t ps_nodes_read(const char *root, uint32_t most, uint8_t *of_cpu, size_t cpus) {
    char list[LIST_BYTES];
    uint64_t last = 0;
    read_list(root, "", "has_memory", list);
    visit_list(list, NODES_LIMIT, keep_last, &last);
    uint32_t count = (uint32_t)ps_min(last + 1, most);
    for (uint64_t node = 0; count > 1 && node <= last; node++) {
        struct table table = {.of_cpu = of_cpu, .node = (uint8_t)(node % count)};
        char folder[PS_DIGITS_BYTES + 8] = "node";
        char digits[PS_DIGITS_BYTES];
        (void)ps_path_append(folder, sizeof folder, ps_digits(digits, node, 10));
        read_list(root, folder, "/cpulist", list);
        visit_list(list, cpus, enter, &table);
    }
    return count;
}
