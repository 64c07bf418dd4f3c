/* SPDX-License-Identifier: MIT */
/*
 * An engine that may sample, and allocations whose bytes are known, of one thread or of several.
 * Included by tests of what turns sampling on and off while a program runs.
 */
#ifndef PS_TESTS_UNIT_SAMPLED_H
#define PS_TESTS_UNIT_SAMPLED_H

#include "tests/unit/engine.h"

#include <math.h>
#include <pthread.h>

#define SIGMAS 4.5
#define THREADS 3

static void start_sampled(size_t interval_bytes) {
    engine_config.profile_interval_bytes = interval_bytes;
    engine_config.profile_seed = 1;
    ps_engine_start();
}

/* Small, medium and large blocks, freed in another order. Returns their bytes. */
static double work(size_t rounds) {
    double bytes = 0;
    void *blocks[64];
    for (size_t i = 0; i < rounds; i++) {
        for (size_t j = 0; j < 64; j++) {
            size_t size = j == 63 ? 700 * KIB : j % 16 == 15 ? 20 * KIB : 16 + 24 * j;
            blocks[j] = ps_heap_alloc(size);
            REQUIRE(blocks[j] != NULL);
            bytes += (double)ps_block_usable(blocks[j]);
        }
        for (size_t j = 64; j-- > 0;) {
            ps_heap_free(blocks[j * 37 % 64]);
        }
    }
    return bytes;
}

static pthread_t working[THREADS];
static uint32_t x_is_done;

static void *keep_working(void *unused) {
    (void)unused;
    while (ps_load_relaxed(&x_is_done) == 0) { /* relaxed: a hint */
        work(1);
    }
    return NULL;
}

static void start_working(void) {
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&working[i], NULL, keep_working, NULL) == 0);
    }
}

static void end_working(void) {
    ps_store_relaxed(&x_is_done, 1u); /* relaxed: a hint */
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(working[i], NULL) == 0);
    }
}

#endif
