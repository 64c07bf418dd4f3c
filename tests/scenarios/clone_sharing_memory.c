// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * Processes made by clone that share this one's memory: with CLONE_VFORK they allocate and free
 * while their parent is suspended, as posix_spawn's and old runtimes' do, on the parent's
 * thread-local words; without it they leave the heap alone and end under its feet.
 */
#include "claim.h"
#include "heap_use.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#define STACK_BYTES 65536
#define HELD 200

static unsigned char *from_parent[HELD];
static unsigned char *from_child[HELD];
static volatile int ends;

static int allocate_for_parent(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < HELD; i++) {
        if (from_parent[i][0] != (unsigned char)i) {
            return 1;
        }
        free(from_parent[i]);
        from_child[i] = malloc(i * 50 + 1);
        if (from_child[i] == NULL) {
            return 2;
        }
        from_child[i][0] = (unsigned char)(i + 1);
    }
    return heap_use() ? 0 : 3;
}

static int compute(void *argument) {
    volatile unsigned *word = argument;
    for (unsigned i = 0; i < 100000; i++) {
        (*word)++;
    }
    return 0;
}

static void wait_for(pid_t child) {
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, __WALL) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *churn(void *unused) {
    (void)unused;
    for (unsigned i = 0; !ends; i++) {
        free(claim_hide(malloc(i % 9000 + 1)));
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    char *stack = malloc(STACK_BYTES);
    unsigned *word = calloc(1, sizeof *word);
    CLAIM(stack != NULL && word != NULL);
    CLAIM(pthread_create(&thread, NULL, churn, NULL) == 0);
    for (int round = 0; round < 100; round++) {
        for (unsigned i = 0; i < HELD; i++) {
            from_parent[i] = malloc(i * 40 + 1);
            CLAIM(from_parent[i] != NULL);
            from_parent[i][0] = (unsigned char)i;
        }
        wait_for(clone(allocate_for_parent, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD,
                       NULL));
        pid_t helper = clone(compute, stack + STACK_BYTES, CLONE_VM | SIGCHLD, word);
        for (unsigned i = 0; i < HELD; i++) {
            CLAIM(from_child[i][0] == (unsigned char)(i + 1));
            free(from_child[i]);
        }
        CLAIM(heap_use());
        wait_for(helper);
    }
    CLAIM(*word == 100 * 100000u);
    ends = 1;
    CLAIM(pthread_join(thread, NULL) == 0);
    free(word);
    free(stack);
    return 0;
}
