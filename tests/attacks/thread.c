/* SPDX-License-Identifier: MIT */
/*
 * The second thread of an attack: does what it is told, while the first one is blocked. Owns one
 * lock and the thread, which lives until the process ends.
 */
#include "attack.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void (*order)(void *argument);
static void *order_argument;

static void *serve(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (order == NULL) {
            pthread_cond_wait(&changed, &lock);
        }
        order(order_argument);
        order = NULL;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

void stage_on_thread(void (*call)(void *argument), void *argument) {
    static pthread_t thread;
    static int is_running;
    if (!is_running && pthread_create(&thread, NULL, serve, NULL) != 0) {
        stage_broken("no thread");
    }
    is_running = 1;
    pthread_mutex_lock(&lock);
    order = call;
    order_argument = argument;
    pthread_cond_broadcast(&changed);
    while (order != NULL) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

struct call {
    void (*function)(void *argument);
    void *argument;
};

static void *make_call(void *call) {
    ((struct call *)call)->function(((struct call *)call)->argument);
    return NULL;
}

void stage_on_short_thread(void (*function)(void *argument), void *argument) {
    struct call call = {function, argument};
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_call, &call) != 0 || pthread_join(thread, NULL) != 0) {
        stage_broken("no thread");
    }
}

void stage_free_on_thread(void *block) { stage_on_thread(free, block); }

void stage_free_by(size_t freer, void *block) {
    if (freer == OTHER) {
        stage_free_on_thread(block);
    } else if (freer == ENDED) {
        stage_on_short_thread(free, block);
    } else {
        free(block);
    }
}

static void hunt(void *size) { stage_hunt(*(size_t *)size); }

void stage_hunt_on_thread(size_t size) { stage_on_thread(hunt, &size); }
