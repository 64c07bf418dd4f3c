/* SPDX-License-Identifier: MIT */
/*
 * Every allocation function, all sizes, three threads, each block with a pattern; made to run while
 * system calls fail. Refused: errno must be ENOMEM, all live blocks intact, a part of them is freed
 * and the work goes on. When the faults are over everything works, and a load that is repeated
 * needs no more memory each time. Prints the refused calls and the memory of the process at its
 * end.
 *
 *     load [steps of each thread]
 */
#include "blocks.h"
#include "marker.h"

#include <malloc.h>
#include <pthread.h>

#define THREADS 3
#define SLOTS 80
#define SHARED_SLOTS 16
#define DEFAULT_STEPS 500
#define CHECKS_MAX 40 /* full looks at all blocks, per load: more would take most of the time */
#define ROUNDS_MAX 12
#define CALM_ROUNDS 3                 /* in a row that needed no more */
#define GIANT_BYTES ((size_t)1 << 48) /* more than any process may have */
#define RSS_SLACK ((size_t)256 << 10)

struct load {
    struct block blocks[SLOTS];
    uint64_t random;
    size_t steps;
    size_t refused;
    size_t checks;
};

/* A block passes from thread to thread as one word: it begins with its own struct block. */
static struct block *shared[SHARED_SLOTS];

static size_t some_size(uint64_t *random) {
    uint64_t kind = block_random(random) % 100;
    uint64_t more = block_random(random);
    return kind < 45   ? more % KIB
           : kind < 65 ? more % (32 * KIB)
           : kind < 75 ? more % (256 * KIB)
           : kind < 97 ? 128 * KIB + more % (512 * KIB)
           : kind < 99 ? 1 * MIB + more % (7 * MIB)
                       : GIANT_BYTES;
}

static void *aligned(size_t bytes, uint64_t *random) {
    void *address = NULL;
    size_t align = (size_t)16 << block_random(random) % 20; /* to 8 MiB */
    switch (block_random(random) % 5) {
    case 0:
        errno = 4711;
        if (posix_memalign(&address, align, bytes) == 0) {
            CLAIM(errno == 4711);
            break;
        }
        CLAIM(errno == ENOMEM && address == NULL);
        break;
    case 1:
        address = aligned_alloc(align, bytes);
        break;
    case 2:
        address = memalign(align, bytes);
        break;
    case 3:
        align = 4096;
        address = valloc(bytes);
        break;
    default:
        align = 4096;
        address = pvalloc(bytes);
    }
    CLAIM(claim_is_aligned(address, align));
    return address;
}

static void *some_block(size_t bytes, uint64_t *random) {
    unsigned char *address;
    switch (block_random(random) % 5) {
    case 0:
        address = calloc(1, bytes);
        CLAIM(address == NULL || block_is_zero(address, bytes));
        return address;
    case 1:
        return aligned(bytes, random);
    case 2:
        return realloc(NULL, bytes);
    case 3:
        return reallocarray(NULL, bytes, 1);
    default:
        return malloc(bytes);
    }
}

/* The call got NULL: nothing else may have changed. Frees a part, so that something can be had. */
static void refused(struct load *load) {
    CLAIM(errno == ENOMEM);
    load->refused++;
    if (load->checks++ < CHECKS_MAX) {
        blocks_check(load->blocks, SLOTS);
    }
    for (size_t i = load->refused % 4; i < SLOTS; i += 4) {
        block_end(&load->blocks[i]);
    }
}

static void allocate(struct load *load, struct block *block) {
    size_t bytes = some_size(&load->random);
    errno = 0;
    unsigned char *address = some_block(bytes, &load->random);
    if (address == NULL) {
        bool is_giant = bytes == GIANT_BYTES;
        load->refused -= is_giant; /* that one is always refused */
        refused(load);
        return;
    }
    CLAIM(malloc_usable_size(address) >= bytes);
    *block = (struct block){address, bytes, load->random};
    block_fill(block);
}

static void resize(struct load *load, struct block *block) {
    size_t bytes = some_size(&load->random) + 1;
    size_t percent = 50 + block_random(&load->random) % 150;
    if (block_random(&load->random) % 2 == 0 && block->bytes < 4 * MIB) {
        bytes = block->bytes / 100 * percent + 1;
    }
    errno = 0;
    unsigned char *address = realloc(block->address, bytes);
    if (address == NULL) {
        CLAIM(errno == ENOMEM && block_is_intact(block, block->bytes));
        load->refused -= bytes > GIANT_BYTES / 2;
        refused(load);
        return;
    }
    block->address = address;
    CLAIM(block_is_intact(block, bytes));
    *block = (struct block){address, bytes, load->random};
    block_fill(block);
}

/* Takes what lies in a shared slot and frees it: mostly another thread's. */
static void take_shared(struct block **slot, struct block *replacement) {
    struct block *taken = __atomic_exchange_n(slot, replacement, __ATOMIC_ACQ_REL);
    if (taken != NULL) {
        struct block block = *taken; /* describes the block after itself */
        CLAIM(block.address == (unsigned char *)taken + sizeof block);
        CLAIM(block_is_intact(&block, block.bytes));
        free(taken);
    }
}

static void share(struct load *load) {
    struct block **slot = &shared[block_random(&load->random) % SHARED_SLOTS];
    size_t bytes = some_size(&load->random) % MIB;
    errno = 0;
    struct block *block = malloc(sizeof *block + bytes);
    if (block == NULL) {
        refused(load);
    } else {
        *block = (struct block){(unsigned char *)(block + 1), bytes, load->random};
        block_fill(block);
    }
    take_shared(slot, block);
}

static void *run_load(void *argument) {
    struct load *load = argument;
    for (size_t step = 0; step < load->steps; step++) {
        struct block *block = &load->blocks[block_random(&load->random) % SLOTS];
        uint64_t what = block_random(&load->random) % 10;
        if (what == 0) {
            share(load);
        } else if (block->address == NULL) {
            allocate(load, block);
        } else if (what < 5) {
            resize(load, block);
        } else {
            block_end(block);
        }
        if (step % 128 == 127) {
            malloc_trim(64 * KIB);
        }
    }
    blocks_check(load->blocks, SLOTS);
    return NULL;
}

static void end_blocks(struct load *load) {
    for (size_t i = 0; i < SLOTS; i++) {
        block_end(&load->blocks[i]);
    }
}

static size_t va_bytes(void) {
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CLAIM(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Without faults nothing is refused, and rounds of the same come to need nothing more: a loss in
 * each round, however small, would go on. */
static void check_recovery(size_t steps) {
    static struct load load;
    size_t rss = 0;
    size_t va = 0;
    int calm_rounds = 0;
    for (int round = 0; round < ROUNDS_MAX && calm_rounds < CALM_ROUNDS; round++) {
        load = (struct load){.random = 42, .steps = steps};
        run_load(&load);
        end_blocks(&load);
        CLAIM(load.refused == 0);
        malloc_trim(0);
        bool is_calm = claim_rss_bytes() <= rss + RSS_SLACK && va_bytes() <= va;
        calm_rounds = is_calm ? calm_rounds + 1 : 0;
        if (!is_calm) {
            rss = claim_rss_bytes();
            va = va_bytes();
        }
    }
    CLAIM(calm_rounds == CALM_ROUNDS);
}

int main(int count, char **arguments) {
    static struct load loads[THREADS];
    pthread_t threads[THREADS];
    size_t refused_count = 0;
    size_t steps = count > 1 ? strtoull(arguments[1], NULL, 10) : DEFAULT_STEPS;
    (void)marker_say(MARKER_BEGIN);
    for (size_t i = 0; i < THREADS; i++) {
        loads[i] = (struct load){.random = 0x9e3779b97f4a7c15u + i, .steps = steps};
        if (i == 0 || pthread_create(&threads[i], NULL, run_load, &loads[i]) != 0) {
            threads[i] = pthread_self(); /* no memory for a thread: then here */
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_equal(threads[i], pthread_self())) {
            run_load(&loads[i]);
        } else {
            CLAIM(pthread_join(threads[i], NULL) == 0);
        }
    }
    long faults = marker_say(MARKER_END);
    for (size_t i = 0; i < THREADS; i++) {
        refused_count += loads[i].refused;
        blocks_check(loads[i].blocks, SLOTS);
        end_blocks(&loads[i]);
    }
    for (size_t i = 0; i < SHARED_SLOTS; i++) {
        take_shared(&shared[i], NULL);
    }
    CLAIM(faults > 0 || refused_count == 0);
    check_recovery(steps / 4);
    dprintf(1, "refused %zu\nrss_kib %zu\nva_kib %zu\n", refused_count, claim_rss_bytes() / KIB,
            va_bytes() / KIB);
    return 0;
}
