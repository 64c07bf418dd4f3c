/* SPDX-License-Identifier: MIT */
/*
 * Faults that memcheck must find in pools: test_pools_memcheck.py runs each by its name, and reads
 * what memcheck says. Without a name the program touches only what it may.
 */
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/stack.h>

#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static char *allocate_node(struct ps_pool *pool) {
    return ps_pool_alloc(pool);
}

__attribute__((noinline)) static void free_node(struct ps_pool *pool, char *node) {
    ps_pool_free(pool, node);
}

__attribute__((noinline)) static void touch(volatile char *address) { *address = 1; }

static void use_pool(const char *fault) {
    struct ps_pool pool;
    if (!ps_pool_init(&pool, 24, 0, NULL)) {
        return;
    }
    char *first = allocate_node(&pool);
    char *second = allocate_node(&pool);
    memset(first, 1, 24);
    memset(second, 2, 24);
    free_node(&pool, second);
    touch(strcmp(fault, "pool_after_free") == 0 ? second : first);
    touch(strcmp(fault, "pool_behind_object") == 0 ? first + 24 : first + 23);
    second = allocate_node(&pool);
    if (strcmp(fault, "pool_uninitialised") == 0 && second[5] != 0) {
        printf("not zero\n");
    }
    struct ps_pool moved;
    ps_pool_move(&moved, &pool);
    free_node(&moved, second);
    touch(strcmp(fault, "pool_after_move") == 0 ? second : first);
    free_node(&moved, first);
    ps_pool_destroy(&moved);
    ps_pool_destroy(&pool);
}

static void use_region(const char *fault) {
    struct ps_region *region = ps_region_create(NULL);
    char *block = ps_region_alloc(region, 100);
    char *newest = ps_region_alloc(region, 100);
    if (block == NULL || newest == NULL || !ps_region_free_last(region, newest, 100)) {
        return;
    }
    touch(strcmp(fault, "region_after_free") == 0 ? newest : block);
    ps_region_reset(region);
    if (strcmp(fault, "region_after_reset") == 0) {
        touch(block);
    }
    ps_region_destroy(region);
}

static void use_stack(const char *fault) {
    struct ps_stack_frame *frame = ps_t_push();
    char *block = ps_t_alloc(100);
    touch(block);
    ps_t_pop(frame);
    if (strcmp(fault, "stack_after_pop") == 0) {
        touch(block);
    }
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "";
    use_pool(fault);
    use_region(fault);
    use_stack(fault);
    return 0;
}
