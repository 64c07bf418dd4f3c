/* SPDX-License-Identifier: MIT */
/*
 * See nodes.h.
 */
#include "pools/engine/os/nodes.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/syscall.h"

#include <string.h>

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

struct path {
    char text[PATH_BYTES];
    size_t length;
};

static void append(struct path *path, const char *text) {
    size_t bytes = ps_min(strlen(text), PATH_BYTES - 1 - path->length);
    memcpy(path->text + path->length, text, bytes);
    path->length += bytes;
    path->text[path->length] = '\0';
}

static void append_number(struct path *path, uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do { /* ends: 64 bits have 20 digits at most */
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    append(path, digits + at);
}

/* Reads a file below a path: a list of numbers, empty if there is none. */
static void read_list(struct path path, const char *name, char *list) {
    append(&path, name);
    list[ps_file_read(path.text, list, LIST_BYTES - 1)] = '\0';
}

uint32_t ps_nodes_read(const char *root, uint32_t most, uint8_t *of_cpu, size_t cpus) {
    char list[LIST_BYTES];
    uint64_t last = 0;
    struct path folder = {.length = 0};
    append(&folder, root);
    append(&folder, "/sys/devices/system/node/");
    read_list(folder, "has_memory", list);
    visit_list(list, NODES_LIMIT, keep_last, &last);
    uint32_t count = (uint32_t)ps_min(last + 1, most);
    for (uint64_t node = 0; count > 1 && node <= last; node++) {
        struct table table = {.of_cpu = of_cpu, .node = (uint8_t)(node % count)};
        struct path own = folder;
        append(&own, "node");
        append_number(&own, node);
        read_list(own, "/cpulist", list);
        visit_list(list, cpus, enter, &table);
    }
    return count;
}
