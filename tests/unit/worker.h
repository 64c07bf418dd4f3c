/* SPDX-License-Identifier: MIT */
/*
 * A thread that does one job at a time on request, so that a test with several threads runs in
 * the order it is written in. The job is over when worker_do returns.
 */
#ifndef PS_TESTS_UNIT_WORKER_H
#define PS_TESTS_UNIT_WORKER_H

#include "tests/unit/announced.h"

#include <pthread.h>
#include <stdbool.h>

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*job)(void *); /* NULL: idle */
    void *argument;
    bool is_stopping;
};

static void *worker_run(void *argument) {
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->lock);
    while (!worker->is_stopping || worker->job != NULL) {
        if (worker->job == NULL) {
            pthread_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        worker->job(worker->argument);
        worker->job = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

__attribute__((unused)) static void worker_start(struct worker *worker) {
    memset(worker, 0, sizeof *worker);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    worker->thread = announced_create(worker_run, worker);
}

__attribute__((unused)) static void worker_do(struct worker *worker, void (*job)(void *),
                                              void *argument) {
    pthread_mutex_lock(&worker->lock);
    worker->job = job;
    worker->argument = argument;
    pthread_cond_broadcast(&worker->changed);
    while (worker->job != NULL) {
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

/* Ends and joins the thread. */
__attribute__((unused)) static void worker_stop(struct worker *worker) {
    pthread_mutex_lock(&worker->lock);
    worker->is_stopping = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
}

/* Runs a job in a thread of its own, which has ended when this returns. */
__attribute__((unused)) static void worker_do_and_end(void (*job)(void *), void *argument) {
    struct worker worker;
    worker_start(&worker);
    worker_do(&worker, job, argument);
    worker_stop(&worker);
}

#endif
