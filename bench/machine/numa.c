/* SPDX-License-Identifier: MIT */
/*
 * NUMA: how much of what a thread allocates lies on the node of its processor, in two workloads of
 * a thread per node. `turns`: each thread in turn allocates `mib`, touches all of it and frees it;
 * the pages of the second and later turns count, which could be those that another node has
 * touched. `exchange`: all threads replace blocks at a time and free half of their blocks in the
 * next thread; the pages of what each has allocated last count. Sizes are small, medium and large,
 * a third of the bytes each. A machine of one node says 100 %.
 */
#include "lib/workload.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SMALL, MEDIUM, LARGE, KINDS };
enum { NODE_LIMIT = 16, BLOCK_LIMIT = 400000, PAGES_AT_A_TIME = 1024 };

static uint64_t mib = 48;
static uint64_t turns = 6;
static uint64_t exchanges = 40;

static const struct bench_option options[] = {
    {"mib", &mib, 16, 512, "what a thread allocates"},
    {"turns", &turns, 2, 100000, "of each thread"},
    {"exchanges", &exchanges, 1, 100000, "of each thread"},
    {0},
};

struct list {
    void *blocks[BLOCK_LIMIT];
    uint32_t bytes[BLOCK_LIMIT];
    size_t count;
};

static struct node {
    uint32_t number;
    int cpu;
    uint64_t random;
    struct list own;
    struct list passed; /* to the next node's thread, which frees it */
    uint64_t local_pages[KINDS];
    uint64_t pages[KINDS];
} nodes[NODE_LIMIT];
static size_t node_count;
static pthread_barrier_t all;

static void find_nodes(void) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && node_count < NODE_LIMIT; cpu++) {
        cpu_set_t one;
        unsigned number = 0;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!CPU_ISSET(cpu, &allowed) || sched_setaffinity(0, sizeof one, &one) != 0) {
            continue;
        }
        syscall(SYS_getcpu, NULL, &number, NULL);
        bool is_known = false;
        for (size_t i = 0; i < node_count; i++) {
            is_known |= nodes[i].number == number;
        }
        if (!is_known) {
            nodes[node_count++] = (struct node){.number = number, .cpu = cpu, .random = number + 1};
        }
    }
    sched_setaffinity(0, sizeof allowed, &allowed);
}

/* As many bytes of each kind, on average. */
static const struct {
    uint32_t least, most, weight;
    const char *note;
} kinds[KINDS] = {
    [SMALL] = {16, 1024, 2607, "small_local_percent"},
    [MEDIUM] = {8192, 131072, 20, "medium_local_percent"},
    [LARGE] = {614400, 2097152, 1, "large_local_percent"},
};

static uint32_t random_size(uint64_t *random) {
    uint64_t kind = bench_random_below(random, kinds[SMALL].weight + kinds[MEDIUM].weight +
                                                   kinds[LARGE].weight);
    size_t i = SMALL;
    for (; kind >= kinds[i].weight; i++) {
        kind -= kinds[i].weight;
    }
    return kinds[i].least + (uint32_t)bench_random_below(random, kinds[i].most - kinds[i].least);
}

static void allocate(struct node *node, struct list *list, uint64_t bytes) {
    uint64_t sum = 0;
    while (sum < bytes && list->count < BLOCK_LIMIT) {
        uint32_t size = random_size(&node->random);
        void *block = bench_malloc(size);
        memset(block, 1, size);
        list->blocks[list->count] = block;
        list->bytes[list->count++] = size;
        sum += size;
    }
}

static void free_all(struct list *list) {
    while (list->count > 0) {
        free(list->blocks[--list->count]);
    }
}

static void count_pages(struct node *node, int kind, void **pages, size_t count) {
    int status[PAGES_AT_A_TIME];
    if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) != 0) {
        bench_fail("move_pages: %s", strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        node->pages[kind] += status[i] >= 0;
        node->local_pages[kind] += status[i] == (int)node->number;
    }
}

/* Counts the pages of the blocks of a kind. */
static void measure_kind(struct node *node, const struct list *list, int kind) {
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *pages[PAGES_AT_A_TIME];
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        uintptr_t page = (uintptr_t)list->blocks[i] & -page_bytes;
        uintptr_t end = (uintptr_t)list->blocks[i] + list->bytes[i];
        bool is_of_kind = list->bytes[i] >= kinds[kind].least && list->bytes[i] < kinds[kind].most;
        for (; is_of_kind && page < end; page += page_bytes) {
            pages[count++] = (void *)page;
            if (count == PAGES_AT_A_TIME) {
                count_pages(node, kind, pages, count);
                count = 0;
            }
        }
    }
    count_pages(node, kind, pages, count);
}

static void measure(struct node *node, const struct list *list) {
    for (int kind = 0; kind < KINDS; kind++) {
        measure_kind(node, list, kind);
    }
}

static void *take_turns(void *argument) {
    struct node *node = argument;
    for (size_t turn = 0; turn < turns * node_count; turn++) {
        if (turn % node_count == (size_t)(node - nodes)) {
            allocate(node, &node->own, mib << 20);
            if (turn != 0) {
                measure(node, &node->own);
            }
            free_all(&node->own);
        }
        pthread_barrier_wait(&all);
    }
    return NULL;
}

static void *exchange(void *argument) {
    struct node *node = argument;
    struct node *before = &nodes[((size_t)(node - nodes) + node_count - 1) % node_count];
    for (uint64_t round = 0; round < exchanges; round++) {
        allocate(node, &node->own, (mib << 20) / 2);
        allocate(node, &node->passed, (mib << 20) / 2);
        if (round == exchanges - 1) {
            measure(node, &node->own);
            measure(node, &node->passed);
        }
        free_all(&node->own);
        pthread_barrier_wait(&all);
        free_all(&before->passed);
        pthread_barrier_wait(&all);
    }
    return NULL;
}

/* Runs it in a thread per node; notes the shares of local pages, in per cent. */
static void run(void *(*work)(void *)) {
    pthread_t threads[NODE_LIMIT];
    bench_round_begin();
    pthread_barrier_init(&all, NULL, (unsigned)node_count);
    for (size_t i = 0; i < node_count; i++) {
        pthread_attr_t attributes;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(nodes[i].cpu, &one);
        memset(nodes[i].pages, 0, sizeof nodes[i].pages);
        memset(nodes[i].local_pages, 0, sizeof nodes[i].local_pages);
        pthread_attr_init(&attributes);
        pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
        int error = pthread_create(&threads[i], &attributes, work, &nodes[i]);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
        pthread_attr_destroy(&attributes);
    }
    for (size_t i = 0; i < node_count; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&all);
    bench_round_end(node_count);
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t local = 0;
        uint64_t pages = 0;
        for (size_t i = 0; i < node_count; i++) {
            local += nodes[i].local_pages[kind];
            pages += nodes[i].pages[kind];
        }
        if (pages != 0) { /* a random size of each kind is most likely, but not certain */
            bench_note(kinds[kind].note, 100 * (double)local / (double)pages);
        }
    }
}

int main(int argc, char **argv) {
    bench_parse("numa", "What lies on the node of the thread that allocates it.", options, argc,
                argv);
    find_nodes();
    run(take_turns);
    run(exchange);
    bench_note("nodes", (double)node_count);
    return bench_report();
}
