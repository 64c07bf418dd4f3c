// expect: exit 0
// timeout: 90
/* SPDX-License-Identifier: MIT */
/*
 * Threads on a stack of the program end by the system call `exit`, without destructors, at any
 * moment of the taking of their idle heaps. When such a thread has been joined, or is detached and
 * known to have ended, the stack is the program's: nothing is written there. The heaps serve later
 * threads: 400 add no memory.
 */
#include "claim.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 << 10)
#define BLOCKS 300
#define ROUNDS 400
#define WARM_UP 50
#define GROWTH_BYTES ((size_t)5 << 20) /* a heap each would be 14 MiB */
#define PAINT 0xEE

static volatile int is_over;
static volatile unsigned sleep_us;
static volatile int tid;
static void *blocks[BLOCKS];

static void pause_us(unsigned us) {
    const struct timespec pause = {0, us * 1000L};
    nanosleep(&pause, NULL);
}

static void *keep_busy(void *unused) {
    void *own[50] = {NULL};
    for (unsigned random = 1; !is_over;) {
        for (int i = 0; i < 1000; i++) {
            random = random * 1103515245 + 12345;
            void **block = &own[random / 1024 % 50];
            free(*block);
            *block = malloc(random / 4096 % 20000 + 1);
        }
        pause_us(100);
    }
    for (int i = 0; i < 50; i++) {
        free(own[i]);
    }
    return unused;
}

static void *end_raw(void *unused) {
    tid = (int)syscall(SYS_gettid);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(2000);
    }
    pause_us(sleep_us);
    syscall(SYS_exit, 0);
    return unused;
}

static void run_on(unsigned char *stack, int round) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK_BYTES);
    sleep_us = 3000 + (unsigned)round * 137 % 6000;
    tid = 0;
    CLAIM(pthread_create(&thread, &attributes, end_raw, NULL) == 0);
    if (round % 4 == 3) {
        CLAIM(pthread_detach(thread) == 0);
        while (tid == 0 || syscall(SYS_tgkill, getpid(), tid, 0) == 0) {
            pause_us(100);
        }
    } else {
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    memset(stack, PAINT, STACK_BYTES);
    pause_us(8000);
    for (size_t i = 0; i < STACK_BYTES; i++) {
        CLAIM(stack[i] == PAINT);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    pthread_attr_destroy(&attributes);
}

int main(void) {
    size_t before = 0;
    pthread_t busy;
    unsigned char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CLAIM(stack != MAP_FAILED);
    CLAIM(pthread_create(&busy, NULL, keep_busy, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM_UP) {
            before = claim_rss_bytes();
        }
        run_on(stack, round);
    }
    is_over = 1;
    CLAIM(pthread_join(busy, NULL) == 0);
    CLAIM(claim_rss_bytes() < before + GROWTH_BYTES);
    return 0;
}
