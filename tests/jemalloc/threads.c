/* SPDX-License-Identifier: MIT */
/*
 * Threads that exchange blocks: what all of them allocated, less what they freed, is live,
 * to the byte.
 */
#include "claims.h"

#include <pthread.h>

#define THREADS 4
#define PLACES 512
#define ROUNDS 40000

static struct place {
    pthread_mutex_t mutex;
    void *block;
} places[PLACES];

static uint64_t allocated;
static uint64_t freed;

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1103515245 + 12345;
    return *state >> 8;
}

/* Mostly short; some above the classes, few long ones. */
static size_t draw_size(uint32_t *state) {
    uint32_t kind = next_random(state) % 256;
    return 1 + next_random(state) % (kind == 0 ? 600000 : kind < 16 ? 20000 : 400);
}

static void *make(uint32_t kind, size_t size) {
    switch (kind) {
    case 0:
        return mallocx(size, MALLOCX_ALIGN(64));
    case 1:
        return calloc(1, size);
    case 2:
        return mallocx(size, MALLOCX_ZERO);
    default:
        return malloc(size);
    }
}

static void change(struct place *place, uint32_t *state) {
    uint32_t kind = next_random(state) % 8;
    size_t size = draw_size(state);
    if (kind == 7 && place->block != NULL) {
        place->block = realloc(place->block, size);
    } else if (kind == 6 && place->block != NULL) {
        place->block = rallocx(place->block, size, 0);
    } else {
        free(place->block);
        place->block = make(kind, size);
    }
    CLAIM(place->block != NULL);
}

static void *run(void *number) {
    uint32_t state = (uint32_t)(uintptr_t)number * 7919;
    volatile uint64_t *own_allocated = READ("thread.allocatedp", uint64_t *);
    volatile uint64_t *own_freed = READ("thread.deallocatedp", uint64_t *);
    uint64_t first_allocated = *own_allocated;
    uint64_t first_freed = *own_freed;
    for (int i = 0; i < ROUNDS; i++) {
        struct place *place = &places[next_random(&state) % PLACES];
        (void)pthread_mutex_lock(&place->mutex);
        change(place, &state);
        (void)pthread_mutex_unlock(&place->mutex);
    }
    __atomic_fetch_add(&allocated, *own_allocated - first_allocated, __ATOMIC_RELAXED);
    __atomic_fetch_add(&freed, *own_freed - first_freed, __ATOMIC_RELAXED);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    uint64_t live = 0;
    for (size_t i = 0; i < PLACES; i++) {
        (void)pthread_mutex_init(&places[i].mutex, NULL);
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    for (size_t i = 0; i < PLACES; i++) {
        live += places[i].block != NULL ? malloc_usable_size(places[i].block) : 0;
    }
    CLAIM(allocated - freed == live);
    return 0;
}
