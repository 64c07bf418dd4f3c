// advise: ring
/* SPDX-License-Identifier: MIT */
/* Requests of many blocks each, which one thread makes and another frees. */
#include "tests/advice/advice.h"

#include <pthread.h>

#define LENGTH 64

static void *request[LENGTH];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_full;
static bool is_over;

SITE void *parse(void) {
    size_t bytes = random_between(16, 200);
    return filled(malloc(bytes), bytes);
}

SITE void finish(void *block) { free(block); }

static void *worker(void *none) {
    pthread_mutex_lock(&mutex);
    while (!is_over || is_full) {
        if (!is_full) {
            pthread_cond_wait(&changed, &mutex);
            continue;
        }
        for (size_t i = 0; i < LENGTH; i++) {
            finish(request[i]);
        }
        is_full = false;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return none;
}

int main(int argc, char **argv) {
    pthread_t thread;
    seed_from(argc, argv);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_mutex_lock(&mutex);
    for (unsigned step = 0; step < 2000 * scale; step++) {
        while (is_full) {
            pthread_cond_wait(&changed, &mutex);
        }
        for (size_t i = 0; i < LENGTH; i++) {
            request[i] = parse();
        }
        is_full = true;
        pthread_cond_signal(&changed);
    }
    is_over = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return EXIT_SUCCESS;
}
