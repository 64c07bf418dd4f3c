// expect: exit 0
// flags: -no-pie -fno-pie
/* SPDX-License-Identifier: MIT */
/*
 * In a program linked to fixed addresses that takes the address of malloc, that address is one in
 * the program, and malloc is the shim's nevertheless: the background thread comes.
 */
#include "tasks.h"

#include <pthread.h>

static pthread_barrier_t is_over;
static void *(*volatile allocate)(size_t);

static void *wait_for_end(void *unused) {
    free(allocate(100));
    pthread_barrier_wait(&is_over);
    return unused;
}

int main(void) {
    pthread_t thread;
    allocate = malloc;
    pthread_barrier_init(&is_over, NULL, 2);
    CLAIM(pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
    tasks_await(3, 1);
    pthread_barrier_wait(&is_over);
    CLAIM(pthread_join(thread, NULL) == 0);
    return 0;
}
