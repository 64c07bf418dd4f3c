/* SPDX-License-Identifier: MIT */
/*
 * A life with the heap: threads, children of fork, vfork and clone, blocks that outlive their
 * thread, a signal handler, an exit handler. Every block has a pattern. Prints the version of the
 * library, "not linked" without one, and "ended" from an exit handler; status 1 and a line at the
 * first finding.
 */
#include <malloc.h>
#include <poolshim/poolshim.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 500, TURNS = 20000, STACK_BYTES = 1 << 16 };

#define CLAIM(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(2, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct block {
    unsigned char *bytes;
    size_t count;
};

static struct block kept[THREADS + 1][BLOCKS]; /* the last: of children */
static volatile sig_atomic_t signals;

static unsigned char pattern_of(const struct block *block) {
    return (unsigned char)((uintptr_t)block->bytes >> 4 ^ block->count);
}

static void check(const struct block *block, size_t count, unsigned char pattern) {
    for (size_t i = 0; i < count; i++) {
        CLAIM(block->bytes[i] == pattern);
    }
}

static void make(struct block *block, unsigned way) {
    if (way % 4 == 0) {
        CLAIM(posix_memalign((void **)&block->bytes, 256, block->count) == 0);
        CLAIM((uintptr_t)block->bytes % 256 == 0);
    } else if (way % 4 == 1) {
        block->bytes = calloc(block->count, 1);
        CLAIM(block->bytes != NULL);
        check(block, block->count, 0);
    } else {
        block->bytes = malloc(block->count);
    }
    CLAIM(block->bytes != NULL && malloc_usable_size(block->bytes) >= block->count);
    memset(block->bytes, pattern_of(block), block->count);
}

static void replace(struct block *block, unsigned *random) {
    *random = *random * 1103515245 + 12345;
    size_t count = 1 + (*random >> 8) % (*random % 64 == 0 ? 200000 : 2000);
    if (block->bytes != NULL && *random % 3 == 0) {
        unsigned char pattern = pattern_of(block);
        block->bytes = realloc(block->bytes, count);
        CLAIM(block->bytes != NULL);
        check(block, count < block->count ? count : block->count, pattern);
        block->count = count;
        memset(block->bytes, pattern_of(block), count);
        return;
    }
    if (block->bytes != NULL) {
        check(block, block->count, pattern_of(block));
        free(block->bytes);
    }
    block->count = count;
    make(block, *random >> 4);
}

static void *work(void *index) {
    struct block *blocks = kept[(size_t)index];
    unsigned random = 7 + (unsigned)(size_t)index;
    for (int i = 0; i < TURNS; i++) {
        replace(&blocks[random % BLOCKS], &random);
    }
    return index;
}

static int end_of(pid_t child) {
    int status;
    CLAIM(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void fork_and_use(void) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, work, (void *)THREADS) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    CLAIM(end_of(child) == 0);
}

static int use_in_clone(void *unused) {
    (void)unused;
    free(malloc(100));
    _exit(3);
}

static void run_programs(void) {
    pid_t child = vfork();
    if (child == 0) {
        free(malloc(100));
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    CLAIM(end_of(child) == 0);
    char *stack = malloc(STACK_BYTES);
    child = clone(use_in_clone, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    CLAIM(WEXITSTATUS(end_of(child)) == 3);
    free(stack);
    CLAIM(system("true") == 0);
}

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void *raise_signals(void *main_thread) {
    for (int i = 0; i < 200; i++) {
        CLAIM(pthread_kill(*(pthread_t *)main_thread, SIGUSR1) == 0);
        usleep(100);
    }
    return NULL;
}

static void say_end(void) {
    char *text = malloc(100);
    CLAIM(text != NULL);
    snprintf(text, 100, "ended");
    puts(text);
    free(text);
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_t self = pthread_self();
    pthread_t raiser;
    void *result;
    CLAIM(atexit(say_end) == 0);
    CLAIM(signal(SIGUSR1, count_signal) != SIG_ERR);
    puts(poolshim_version != NULL ? poolshim_version() : "not linked");
    fflush(stdout);
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    }
    fork_and_use();
    run_programs();
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    CLAIM(pthread_create(&raiser, NULL, raise_signals, &self) == 0);
    for (size_t i = 0; i < THREADS; i++) { /* blocks of threads that have ended */
        work((void *)i);
    }
    CLAIM(pthread_join(raiser, NULL) == 0 && signals > 0);
    return 0;
}
