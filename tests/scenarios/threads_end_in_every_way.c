// expect: exit 0
// timeout: 90
/* SPDX-License-Identifier: MIT */
/*
 * Threads end in every way there is, with live blocks: by return, by pthread_exit deep in calls,
 * detached from the start or by themselves, cancelled at cancellation points of libc (read, write,
 * which allocate nothing), and cancelled asynchronously in a loop that only computes. Clean-up
 * handlers and key destructors free their blocks; nothing is lost: 6,000 threads add no memory.
 */
#include "claim.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define HELD 40
#define WAYS 7
#define ROUNDS 900
#define WARM_UP 150

static pthread_key_t key;
static int silent_pipe[2];
static volatile int detached_alive;
static volatile int handlers_run;

struct holder {
    unsigned char *blocks[HELD];
    int way;
};

static void give_back(void *argument) {
    struct holder *holder = argument;
    for (int i = 0; i < HELD; i++) {
        CLAIM(holder->blocks[i][0] == i);
        free(holder->blocks[i]);
    }
    bool is_detached = holder->way >= 4 && holder->way <= 5;
    free(holder);
    void *late = malloc(300);
    CLAIM(late != NULL);
    free(late);
    __atomic_fetch_add(&handlers_run, 1, __ATOMIC_RELAXED);
    if (is_detached) {
        __atomic_fetch_sub(&detached_alive, 1, __ATOMIC_RELEASE);
    }
}

static struct holder *fill(int way) {
    struct holder *holder = malloc(sizeof *holder);
    CLAIM(holder != NULL);
    holder->way = way;
    for (int i = 0; i < HELD; i++) {
        holder->blocks[i] = malloc((size_t)i * 61 % 5000 + 1);
        CLAIM(holder->blocks[i] != NULL);
        holder->blocks[i][0] = (unsigned char)i;
    }
    return holder;
}

static void leave_deep(int depth);
static void (*volatile next_leaver)(int depth) = leave_deep;

static void leave_deep(int depth) {
    char *volatile block = malloc((size_t)depth + 1);
    free(block);
    if (depth == 0) {
        pthread_exit(NULL);
    }
    next_leaver(depth - 1);
    block = NULL; /* not a tail call */
}

static void read_for_ever(void) {
    char byte;
    while (read(silent_pipe[0], &byte, 1) != 1) {
    }
}

static void compute_for_ever(void) {
    int before;
    CLAIM(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before) == 0);
    for (volatile unsigned long i = 0;; i++) {
    }
}

static void *live(void *argument) {
    int way = (int)(intptr_t)argument;
    struct holder *holder = fill(way);
    if (way != 3 && way != 6) {
        CLAIM(pthread_setspecific(key, holder) == 0);
    }
    if (way == 1) {
        leave_deep(30);
    } else if (way == 2) {
        read_for_ever();
    } else if (way == 5) {
        CLAIM(pthread_detach(pthread_self()) == 0);
    } else if (way == 3 || way == 6) {
        pthread_cleanup_push(give_back, holder);
        way == 3 ? read_for_ever() : compute_for_ever();
        pthread_cleanup_pop(0);
    }
    return NULL;
}

static void run_round(void) {
    pthread_t threads[WAYS];
    pthread_attr_t detached;
    CLAIM(pthread_attr_init(&detached) == 0);
    CLAIM(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    detached_alive = 2;
    for (int way = 0; way < WAYS; way++) {
        const pthread_attr_t *attributes = way == 4 ? &detached : NULL;
        CLAIM(pthread_create(&threads[way], attributes, live, (void *)(intptr_t)way) == 0);
    }
    for (int way = 0; way < WAYS; way++) {
        if (way == 2 || way == 3 || way == 6) {
            CLAIM(pthread_cancel(threads[way]) == 0);
        }
        if (way < 4 || way == 6) {
            CLAIM(pthread_join(threads[way], NULL) == 0);
        }
    }
    while (__atomic_load_n(&detached_alive, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
}

int main(void) {
    size_t settled = 0;
    CLAIM(pipe(silent_pipe) == 0 && pthread_key_create(&key, give_back) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        run_round();
        if (round == WARM_UP) {
            settled = claim_rss_bytes();
        }
    }
    CLAIM(handlers_run == ROUNDS * WAYS);
    size_t now = claim_rss_bytes();
    printf("threads: %d, resident after a sixth of them %zu KiB, at the end %zu KiB\n",
           ROUNDS * WAYS, settled >> 10, now >> 10);
    CLAIM(now < settled + ((size_t)2 << 20));
    return 0;
}
