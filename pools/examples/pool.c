/* SPDX-License-Identifier: MIT */
/*
 * An order book: orders come and go in any order, each in its own block of a pool. Checks itself.
 */
#include <poolshim/pool.h>
#include <stdio.h>

struct order {
    unsigned id;
    unsigned price;
    struct order *next;
};

enum { PRICES = 16, ORDERS = 10000 };

int main(void) {
    struct ps_pool_options options = {.chunks = {.name = "orders"}, .max_items = 5000};
    struct ps_pool pool;
    if (!ps_pool_init(&pool, sizeof(struct order), 0, &options)) {
        return 1;
    }
    struct order *book[PRICES] = {NULL};
    size_t waiting = 0;
    size_t refused = 0;
    for (unsigned id = 0; id < ORDERS; id++) {
        struct order **level = &book[id * 7 % PRICES];
        if (id % 3 == 2 && *level != NULL) { /* matched: the order leaves the book */
            struct order *matched = *level;
            *level = matched->next;
            ps_pool_free(&pool, matched);
            waiting--;
            continue;
        }
        struct order *order = ps_pool_alloc(&pool);
        if (order == NULL) { /* the book is full: max_items */
            refused++;
            continue;
        }
        *order = (struct order){id, id * 7 % PRICES, *level};
        *level = order;
        waiting++;
    }
    struct ps_pool_stats stats;
    ps_pool_stats(&pool, &stats);
    printf("%zu orders wait, %zu were refused, %zu bytes\n", stats.used_count, refused,
           stats.total_bytes);
    ps_pool_destroy(&pool); /* with all pending orders */
    return stats.used_count == waiting && waiting <= 5000 ? 0 : 1;
}
