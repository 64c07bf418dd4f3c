/* SPDX-License-Identifier: MIT */
/*
 * The example of registry.h: a service lists its long-lived pools, prints the memory of each, and
 * finds the largest. Run it with PS_DEBUG=leaks to have the pools named that main forgets.
 */
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/registry.h>
#include <string.h>

struct largest {
    char name[40];
    size_t bytes;
};

static void note_if_larger(const struct ps_pool_info *info, void *context) {
    struct largest *largest = context;
    if (info->total_bytes > largest->bytes) {
        strcpy(largest->name, info->name);
        largest->bytes = info->total_bytes;
    }
}

int main(void) {
    struct ps_pool nodes;
    struct ps_pool_options node_options = {.chunks = {.name = "nodes"}};
    if (!ps_pool_init(&nodes, 48, 0, &node_options) || !ps_pool_enlist(&nodes)) {
        return 1;
    }
    struct ps_region_options cache_options = {.chunks = {.name = "cache"}};
    struct ps_region *cache = ps_region_create(&cache_options);
    if (cache == NULL || !ps_region_enlist(cache)) {
        return 1;
    }
    void *node = ps_pool_alloc(&nodes);
    void *texts = ps_region_alloc(cache, (size_t)1 << 20);
    if (node == NULL || texts == NULL || !ps_dump_stats(stdout)) {
        return 1;
    }
    struct largest largest = {"", 0};
    ps_pools_each(note_if_larger, &largest);
    printf("most memory: %s\n", largest.name);
    ps_pool_free(&nodes, node);
    ps_region_destroy(cache);
    ps_pool_destroy(&nodes);
    return strcmp(largest.name, "cache") == 0 || largest.bytes == 0 ? 0 : 1;
}
