/* SPDX-License-Identifier: MIT */
/*
 * Small programs in two versions, for scripts/dev/advice: with -DIS_POOL=0 each gets its blocks
 * from malloc, with 1 from the pool that `poolshim advise` names. The measured saving of each
 * pool is compared with the prediction. First argument: which program; second: how often.
 */
#include <poolshim/fifo.h>
#include <poolshim/pool.h>
#include <poolshim/region.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline))
enum { OBJECTS = 5000, MESSAGES = 3000, TOUCHED_BYTES = 64, NODE_BYTES = 32 };

struct node {
    struct node *next;
    uint64_t value;
};

static struct ps_region *region;
static struct ps_pool pool;
static struct ps_fifo *fifo;
static void *places[OBJECTS];

static uint32_t random_below(uint32_t limit) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 32) * limit >> 32);
}

static void *filled(void *block, size_t bytes) {
    if (block == NULL) {
        abort();
    }
    return memset(block, 0x5a, bytes < TOUCHED_BYTES ? bytes : TOUCHED_BYTES);
}

/* ---- documents and lists: a region ---- */

SITE static struct node *add_node(struct node *next, size_t bytes) {
    struct node *node = filled(IS_POOL ? ps_region_alloc(region, bytes) : malloc(bytes), bytes);
    node->next = next;
    node->value = bytes;
    return node;
}

static void begin_nodes(void) {
    if (IS_POOL) {
        region = ps_region_create(NULL);
    }
}

SITE static void free_nodes(struct node *node) {
    if (IS_POOL) {
        ps_region_destroy(region);
        return;
    }
    while (node != NULL) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
}

static uint64_t read_nodes(const struct node *node) {
    uint64_t sum = 0;
    for (; node != NULL; node = node->next) {
        sum += node->value;
    }
    return sum;
}

/* Many nodes of many sizes, not read again. */
static uint64_t documents(uint32_t rounds) {
    for (uint32_t round = 0; round < 300 * rounds; round++) {
        struct node *first = NULL;
        begin_nodes();
        for (uint32_t count = 300 + random_below(400); count > 0; count--) {
            first = add_node(first, 24 + random_below(112));
        }
        free_nodes(first);
    }
    return 0;
}

/* So few nodes of one size that they fit into the nearest cache, read once. */
static uint64_t lists(uint32_t rounds) {
    uint64_t sum = 0;
    for (uint32_t round = 0; round < 2000 * rounds; round++) {
        struct node *first = NULL;
        begin_nodes();
        for (uint32_t count = 200; count > 0; count--) {
            first = add_node(first, NODE_BYTES);
        }
        sum += read_nodes(first);
        free_nodes(first);
    }
    return sum;
}

/* ---- objects: a pool ---- */

SITE static void *make_object(void) {
    return filled(IS_POOL ? ps_pool_alloc(&pool) : malloc(48), 48);
}

SITE static void drop_object(void *object) {
    if (IS_POOL) {
        ps_pool_free(&pool, object);
    } else {
        free(object);
    }
}

static uint64_t objects(uint32_t rounds) {
    if (IS_POOL && !ps_pool_init(&pool, 48, 0, NULL)) {
        abort();
    }
    for (uint32_t step = 0; step < 300000 * rounds; step++) {
        void **place = &places[random_below(OBJECTS)];
        if (*place == NULL) {
            *place = make_object();
        } else {
            drop_object(*place);
            *place = NULL;
        }
    }
    return 0;
}

/* ---- messages: a queue ---- */

SITE static void *receive(void) {
    size_t bytes = 16 + random_below(284);
    return filled(IS_POOL ? ps_fifo_alloc(fifo, bytes) : malloc(bytes), bytes);
}

SITE static void answer(void *message) {
    if (IS_POOL && message != NULL) {
        ps_fifo_free(fifo, message);
    } else {
        free(message);
    }
}

static uint64_t messages(uint32_t rounds) {
    if (IS_POOL) {
        fifo = ps_fifo_create(NULL);
    }
    for (uint32_t step = 0; step < 200000 * rounds; step++) {
        answer(places[step % MESSAGES]);
        places[step % MESSAGES] = receive();
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint64_t (*run)(uint32_t rounds);
    } programs[] = {
        {"documents", documents}, {"lists", lists}, {"objects", objects}, {"messages", messages}};
    for (size_t i = 0; argc == 3 && i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(programs[i].name, argv[1]) == 0) {
            return programs[i].run((uint32_t)atoi(argv[2])) == 1;
        }
    }
    return 2;
}
