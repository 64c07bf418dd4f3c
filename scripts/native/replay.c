/* SPDX-License-Identifier: MIT */
/*
 * replay [-n ROUNDS] POOL FILE: makes the allocations and frees of a file by malloc, or by a family
 * of the pools library, and prints what they cost, as JSON. `poolshim advise` runs it: it writes
 * the file (poolshim_cli/advise/streams.py) and preloads the library for malloc's part.
 *
 * Each thread of the file is a thread here; one runs at a time, in the order of the file. Times are
 * those of the calls and of touching each cache line of the blocks once, without the time until a
 * turn. loop_ns are those of reading the file's operations without making the calls: round_ns have
 * that in them, and it is no cost of an allocator. Exit status: 0, 2 for a bad command line or
 * file, 1 when memory is exhausted.
 */
#include <poolshim/fifo.h>
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/ring.h>
#include <poolshim/stack.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAGIC 0x31595250u /* "PRY1" */
#define ROUNDS_MAX 1000
#define THREADS_MAX 64
#define LINE_BYTES 64
#define TOUCH_MAX 4096 /* of a block; the rest of a larger one is touched alike */

enum family { MALLOC, REGION, STACK, SCRATCH, FIFO, POOL, RING, FAMILIES, NO_CALLS };
static const char *const families[FAMILIES] = {"malloc", "region", "stack", "scratch",
                                               "fifo",   "pool",   "ring"};

/* THREAD: whose pool the next calls use, and in files of a ring, which thread makes them. OPEN and
 * CLOSE: a region or a frame by its number; of a stack, each block has one. SEAL: the open frame of
 * a ring. */
enum kind { ALLOC, FREE, OPEN, CLOSE, SEAL, THREAD, USE, KINDS };

struct op {
    uint32_t kind;
    uint32_t place; /* of a block, a group or a thread */
    uint32_t bytes; /* of ALLOC */
};

struct file_header {
    uint32_t magic;
    uint32_t op_count;
    uint32_t timed_count; /* the rest clears away what lived on */
    uint32_t block_count;
    uint32_t group_count;
    uint32_t thread_count;
    uint32_t object_bytes; /* of a pool */
    uint32_t has_threads;  /* else one thread plays them all */
};

static struct file_header header;
static struct op *ops;
static void **blocks;
static void **groups;
static enum family family;

/* One of each per thread of the file. */
static struct ps_pool pools[THREADS_MAX];
static void *places[THREADS_MAX]; /* stack, fifo or ring */

static void fail(const char *what) {
    fprintf(stderr, "replay: %s\n", what);
    exit(EXIT_FAILURE);
}

static void *kept(void *block) {
    if (block == NULL) {
        fail("memory is exhausted");
    }
    return block;
}

static void touch(char *block, uint32_t bytes) {
    uint32_t end = bytes < TOUCH_MAX ? bytes : TOUCH_MAX;
    for (uint32_t at = 0; at < end; at += LINE_BYTES) {
        *(volatile char *)(block + at) = 1;
    }
}

/* ---- the calls of each family ---- */

static void *alloc_from(uint32_t thread, void *group, uint32_t bytes) {
    switch (family) {
    case NO_CALLS:
        return &header;
    case REGION:
        return ps_region_alloc(group, bytes);
    case STACK:
    case SCRATCH:
        return ps_stack_alloc(places[thread], bytes);
    case FIFO:
        return ps_fifo_alloc(places[thread], bytes);
    case POOL:
        return ps_pool_alloc(&pools[thread]);
    case RING:
        return ps_ring_alloc(places[thread], bytes);
    default:
        return malloc(bytes);
    }
}

static void free_to(uint32_t thread, void *block) {
    switch (family) {
    case FIFO:
        ps_fifo_free(places[thread], block);
        break;
    case POOL:
        ps_pool_free(&pools[thread], block);
        break;
    case MALLOC:
        free(block);
        break;
    default:
        break; /* dies with its group */
    }
}

static void *open_group(uint32_t thread) {
    switch (family) {
    case REGION:
        return kept(ps_region_create(NULL));
    case STACK:
    case SCRATCH:
        return kept(ps_stack_push(places[thread]));
    case RING:
        return kept(ps_ring_begin(places[thread]));
    default:
        return NULL;
    }
}

static void close_group(uint32_t thread, void *group) {
    switch (family) {
    case REGION:
        ps_region_destroy(group);
        break;
    case STACK:
    case SCRATCH:
        ps_stack_pop(places[thread], group);
        break;
    case RING:
        ps_ring_release(group);
        break;
    default:
        break;
    }
}

/* ---- playing ---- */

struct play {
    uint32_t thread; /* of the calls */
    void *group;
};

static void play_one(struct play *play, const struct op *op) {
    switch (op->kind) {
    case ALLOC:
        blocks[op->place] = kept(alloc_from(play->thread, play->group, op->bytes));
        if (family != NO_CALLS) {
            touch(blocks[op->place], op->bytes);
        }
        break;
    case FREE:
        free_to(play->thread, blocks[op->place]);
        break;
    case OPEN:
        groups[op->place] = play->group = open_group(play->thread);
        break;
    case CLOSE:
        close_group(play->thread, groups[op->place]);
        break;
    case SEAL:
        if (family == RING) {
            ps_ring_seal(places[play->thread]);
        }
        break;
    case USE:
        play->group = groups[op->place];
        break;
    default:
        play->thread = op->place;
        break;
    }
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t play_alone(uint32_t begin, uint32_t end) {
    struct play play = {0, NULL};
    uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = begin; i < end; i++) {
        play_one(&play, &ops[i]);
    }
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

/* The threads of a ring's file take turns; the time of each turn counts. */
static struct turns {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t next; /* op */
    uint64_t spent_ns;
} turns = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool is_turn_of(uint32_t thread) {
    return turns.next == header.op_count || ops[turns.next].place == thread;
}

static void *play_turns(void *argument) {
    uint32_t thread = (uint32_t)(uintptr_t)argument;
    pthread_mutex_lock(&turns.mutex);
    while (turns.next < header.op_count) {
        if (!is_turn_of(thread)) {
            pthread_cond_wait(&turns.changed, &turns.mutex);
            continue;
        }
        struct play play = {thread, NULL};
        uint32_t at = turns.next + 1; /* after its own THREAD */
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        while (at < header.op_count && ops[at].kind != THREAD) {
            play_one(&play, &ops[at++]);
        }
        turns.spent_ns += at <= header.timed_count ? now_ns(CLOCK_MONOTONIC) - start : 0;
        turns.next = at;
        pthread_cond_broadcast(&turns.changed);
    }
    pthread_mutex_unlock(&turns.mutex);
    return NULL;
}

static uint64_t play_together(void) {
    pthread_t threads[THREADS_MAX];
    turns.next = 0;
    turns.spent_ns = 0;
    for (uint32_t i = 0; i < header.thread_count; i++) {
        if (pthread_create(&threads[i], NULL, play_turns, (void *)(uintptr_t)i) != 0) {
            fail("a thread cannot be started");
        }
    }
    for (uint32_t i = 0; i < header.thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    return turns.spent_ns;
}

/* ---- the file ---- */

static void refuse(const char *what) {
    fprintf(stderr, "replay: %s\n", what);
    exit(2);
}

static bool is_sound(const struct op *op) {
    uint32_t limits[KINDS] = {
        header.block_count,  header.block_count, header.group_count, header.group_count, 1,
        header.thread_count, header.group_count};
    return op->kind < KINDS && op->place < limits[op->kind];
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        refuse(strerror(errno));
    }
    if (fread(&header, sizeof header, 1, file) != 1 || header.magic != MAGIC ||
        header.thread_count == 0 || header.thread_count > THREADS_MAX ||
        header.timed_count > header.op_count) {
        refuse("the file is no stream of calls");
    }
    ops = kept(calloc((size_t)header.op_count + 1, sizeof *ops));
    blocks = kept(calloc((size_t)header.block_count + 1, sizeof *blocks));
    groups = kept(calloc((size_t)header.group_count + 1, sizeof *groups));
    memset(blocks, 1, ((size_t)header.block_count + 1) * sizeof *blocks); /* resident from here */
    memset(groups, 1, ((size_t)header.group_count + 1) * sizeof *groups);
    if (fread(ops, sizeof *ops, header.op_count, file) != header.op_count) {
        refuse("the file ends early");
    }
    for (uint32_t i = 0; i < header.op_count; i++) {
        if (!is_sound(&ops[i])) {
            refuse("the file has a call that cannot be made");
        }
    }
    if (header.has_threads != 0 && (header.op_count == 0 || ops[0].kind != THREAD)) {
        refuse("the first call is no thread's");
    }
    fclose(file);
}

static void make_pools(void) {
    for (uint32_t i = 0; i < header.thread_count; i++) {
        switch (family) {
        case STACK:
        case SCRATCH:
            places[i] = kept(ps_stack_create(NULL));
            break;
        case FIFO:
            places[i] = kept(ps_fifo_create(NULL));
            break;
        case RING:
            places[i] = kept(ps_ring_create(NULL));
            break;
        case POOL:
            if (!ps_pool_init(&pools[i], header.object_bytes, 0, NULL)) {
                fail("memory is exhausted");
            }
            break;
        default:
            break;
        }
    }
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static enum family family_of(const char *name) {
    for (int i = 0; i < FAMILIES; i++) {
        if (strcmp(name, families[i]) == 0) {
            return (enum family)i;
        }
    }
    refuse("no such family");
    return MALLOC;
}

static void print_rounds(const char *name, int rounds) {
    printf("\"%s\": [", name);
    for (int i = 0; i < rounds; i++) {
        uint64_t spent;
        if (header.has_threads != 0) {
            spent = play_together();
        } else {
            spent = play_alone(0, header.timed_count);
            (void)play_alone(header.timed_count, header.op_count);
        }
        printf("%s%llu", i == 0 ? "" : ", ", (unsigned long long)spent);
    }
    printf("]");
}

int main(int argc, char **argv) {
    int rounds = 5;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        rounds = atoi(argv[2]);
        first = 3;
    }
    if (argc - first != 2 || rounds < 1 || rounds > ROUNDS_MAX) {
        refuse("usage: replay [-n ROUNDS] POOL FILE");
    }
    family = family_of(argv[first]);
    read_file(argv[first + 1]);
    long before_kib = peak_kib();
    make_pools();
    printf("{");
    print_rounds("round_ns", rounds);
    printf(", \"peak_kib\": %ld, ", peak_kib() - before_kib);
    family = NO_CALLS;
    print_rounds("loop_ns", rounds);
    printf("}\n");
    return EXIT_SUCCESS;
}
