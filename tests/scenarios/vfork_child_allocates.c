// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * Children of vfork, of clone and of another such child allocate, free and resize blocks of all
 * sizes, their parent's too, on another processor than their parent, while more than two threads
 * per processor do so: each block is with one of them at a time.
 */
#include "fork_load.h"
#include "heap_use.h"

#include <sched.h>

#define THREADS 12 /* on two processors */
#define SLOTS 64
#define ROUNDS 8
#define STEPS 2000
#define STACK_BYTES 65536
#define VALUES_MAX 64 /* of 8 bytes, in a block */

struct block {
    size_t count;
    uint64_t values[];
};

struct table {
    pthread_t thread;
    uint64_t name;
    uint32_t random;
    struct block *slots[SLOTS];
};

static struct table tables[THREADS + 1]; /* the last is the main thread's and its children's */
static volatile int ends;
static int own_cpu; /* of the main thread */
static int other_cpu;

static void check(const struct block *block, uint64_t name) {
    for (size_t i = 0; i < block->count; i++) {
        CLAIM(block->values[i] == name + block->count);
    }
}

/* Replaces a block that is this table's alone. */
static void step(struct table *table) {
    table->random = table->random * 1664525u + 1013904223u;
    struct block **slot = &table->slots[(table->random >> 16) % SLOTS];
    size_t count = (table->random >> 8) % VALUES_MAX;
    size_t bytes = sizeof(struct block) + count * sizeof(uint64_t);
    if (*slot != NULL) {
        check(*slot, table->name);
    }
    if (*slot != NULL && table->random % 8 == 0) {
        *slot = claim_hide(realloc(*slot, bytes));
    } else {
        free(*slot);
        *slot = claim_hide(malloc(bytes));
    }
    CLAIM(*slot != NULL);
    (*slot)->count = count;
    for (size_t i = 0; i < count; i++) {
        (*slot)->values[i] = table->name + count;
    }
}

static void *run(void *table) {
    while (!ends) {
        step(table);
    }
    return NULL;
}

static void run_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CLAIM(sched_setaffinity(0, sizeof one, &one) == 0);
}

__attribute__((noinline)) static int allocate(void *unused) {
    (void)unused;
    run_on(other_cpu);
    for (int i = 0; i < STEPS; i++) {
        step(&tables[THREADS]);
    }
    return heap_use() ? 0 : 1;
}

static void wait_for(pid_t child) {
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, __WALL) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

__attribute__((noinline)) static void run_child(void) {
    pid_t child = vfork();
    if (child == 0) {
        _exit(allocate(NULL));
    }
    wait_for(child);
}

/* The grandchild has ended when its parent, which goes on, allocates. */
__attribute__((noinline)) static void run_grandchild(void) {
    pid_t child = vfork();
    if (child == 0) {
        run_child();
        _exit(allocate(NULL));
    }
    wait_for(child);
}

/* Two processors, told to the library from the beginning. */
static void start_again_on_two(char **arguments) {
    cpu_set_t all;
    cpu_set_t two;
    CPU_ZERO(&two);
    CLAIM(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &two);
            own_cpu = CPU_COUNT(&two) == 1 ? cpu : own_cpu;
            other_cpu = cpu;
        }
    }
    if (CPU_COUNT(&all) > 2) {
        CLAIM(sched_setaffinity(0, sizeof two, &two) == 0);
        execv("/proc/self/exe", arguments);
        claim_skip("cannot start again");
    }
}

int main(int count, char **arguments) {
    (void)count;
    start_again_on_two(arguments);
    char *stack = malloc(STACK_BYTES);
    CLAIM(stack != NULL);
    for (uint32_t i = 0; i <= THREADS; i++) {
        tables[i].name = (uint64_t)(i + 1) << 32;
        tables[i].random = i * 7919 + 17;
    }
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&tables[i].thread, NULL, run, &tables[i]) == 0);
    }
    run_on(own_cpu);
    for (int i = 0; i < ROUNDS; i++) {
        run_child();
        run_grandchild();
        wait_for(clone(allocate, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
        for (int k = 0; k < 100; k++) {
            step(&tables[THREADS]);
        }
    }
    ends = 1;
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(tables[i].thread, NULL) == 0);
    }
    free(stack);
    return 0;
}
