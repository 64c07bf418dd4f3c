// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * A program that takes every pthread key there is still gets a heap in every thread, and its keys
 * have the values that it gave them.
 */
#include "claim.h"
#include "heap_use.h"

#include <limits.h>
#include <pthread.h>

static void take_all_keys(void) {
    pthread_key_t key;
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++) {
        if (pthread_key_create(&key, NULL) != 0) {
            return;
        }
    }
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit_entry)(void) = take_all_keys;

static void *use_in_thread(void *unused) {
    (void)unused;
    CLAIM(heap_use());
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        CLAIM(pthread_getspecific(key) == NULL);
    }
    return NULL;
}

int main(void) {
    pthread_key_t key;
    CLAIM(pthread_key_create(&key, NULL) != 0);
    CLAIM(heap_use());
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, use_in_thread, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
