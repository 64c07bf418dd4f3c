/* SPDX-License-Identifier: MIT */
/*
 * Producer and consumer: one thread allocates messages, another one frees them, and a bounded ring
 * lies between. Pipelines, loggers, actor mailboxes: every single block is freed by a thread that
 * did not make it, for ever, so memory must flow back as fast as it is freed.
 *
 * Timed, wall clock: `blocks` messages through each of `pairs` rings, from the start of the threads
 * to their end. Indices are published in batches, so that the ring itself costs little. Each
 * message carries its number, which the consumer checks. An operation is one message.
 */
#include "lib/workload.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { PAIR_LIMIT = 64, RING_LIMIT = 1 << 16 };

static uint64_t pairs = 1;
static uint64_t block_bytes = 64;
static uint64_t ring_slots = 4096;
static uint64_t batch = 32;
static uint64_t blocks = 5000000;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"pairs", &pairs, 1, PAIR_LIMIT, "producers, each with its consumer"},
    {"size", &block_bytes, 8, 1 << 20, "bytes per block"},
    {"slots", &ring_slots, 1, RING_LIMIT, "blocks that fit into a ring"},
    {"batch", &batch, 1, RING_LIMIT, "blocks published at a time, at most a ring full"},
    {"blocks", &blocks, 1, 10000000000, "blocks per producer and round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

/* taken <= made <= taken + ring_slots. Each index on its own line, written by one thread. */
struct ring {
    _Alignas(64) atomic_uint_fast64_t made;  /* producer */
    _Alignas(64) atomic_uint_fast64_t taken; /* consumer */
    _Alignas(64) void *slots[RING_LIMIT];
    pthread_t threads[2];
};

static struct ring rings[PAIR_LIMIT];

/* Waits until *index reaches `wanted` and returns it; yields the core when it takes long. */
static uint64_t wait_for(const atomic_uint_fast64_t *index, uint64_t wanted) {
    for (unsigned spins = 1;; spins++) {
        uint64_t now = atomic_load_explicit(index, memory_order_acquire);
        if (now >= wanted) {
            return now;
        }
        if (spins % 256 == 0) {
            sched_yield();
        }
    }
}

static void *produce(void *argument) {
    struct ring *ring = argument;
    for (uint64_t made = 0; made < blocks;) {
        uint64_t end = made + batch < blocks ? made + batch : blocks;
        wait_for(&ring->taken, end < ring_slots ? 0 : end - ring_slots);
        for (; made < end; made++) {
            uint64_t *block = bench_malloc(block_bytes);
            *block = made;
            ring->slots[made % ring_slots] = block;
        }
        atomic_store_explicit(&ring->made, made, memory_order_release);
    }
    return NULL;
}

static void *consume(void *argument) {
    struct ring *ring = argument;
    for (uint64_t taken = 0; taken < blocks;) {
        uint64_t end = wait_for(&ring->made, taken + 1);
        for (; taken < end; taken++) {
            uint64_t *block = ring->slots[taken % ring_slots];
            if (*block != taken) {
                bench_fail("message %llu was overwritten", (unsigned long long)taken);
            }
            free(block);
        }
        atomic_store_explicit(&ring->taken, taken, memory_order_release);
    }
    return NULL;
}

static void start(struct ring *ring, int which, void *(*body)(void *)) {
    int error = pthread_create(&ring->threads[which], NULL, body, ring);
    if (error != 0) {
        bench_fail("pthread_create: %s", strerror(error));
    }
}

int main(int argc, char **argv) {
    bench_parse("ring", "Passes blocks from producers to consumers, which free them.", options,
                argc, argv);
    batch = batch < ring_slots ? batch : ring_slots;
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < pairs; j++) {
            atomic_store(&rings[j].made, 0);
            atomic_store(&rings[j].taken, 0);
            start(&rings[j], 0, produce);
            start(&rings[j], 1, consume);
        }
        for (uint64_t j = 0; j < 2 * pairs; j++) {
            pthread_join(rings[j / 2].threads[j % 2], NULL);
        }
        bench_round_end(pairs * blocks);
    }
    return bench_report();
}
