/* SPDX-License-Identifier: MIT */
/* Threads use pages and malloc while the process forks: every child goes on with both, and in the
 * end all pages have come back. */
#include <poolshim/pages.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define FORKS 40
#define RUNS 16

static uint32_t x_stop;

static void use(uint32_t *state) {
    size_t bytes[RUNS];
    char *runs[RUNS];
    void *blocks[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        *state = *state * 1664525u + 1013904223u;
        bytes[i] = (1 + (*state >> 8) % 40) * PS_PAGE_BYTES;
        runs[i] = ps_pages_alloc(bytes[i], PS_ALIGN_DEFAULT);
        blocks[i] = malloc((*state >> 4) % 100000);
        if (runs[i] == NULL || blocks[i] == NULL) {
            abort();
        }
        runs[i][0] = 1;
    }
    for (size_t i = 0; i < RUNS; i++) {
        ps_pages_free(runs[i], bytes[i]);
        free(blocks[i]);
    }
    if (*state % 16 == 0) {
        ps_pages_trim_to((size_t)1 << 20);
    }
}

static void *churn(void *seed) {
    uint32_t state = (uint32_t)(uintptr_t)seed;
    while (__atomic_load_n(&x_stop, __ATOMIC_RELAXED) == 0) {
        use(&state);
    }
    return NULL;
}

static int fork_and_use(uint32_t state) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        for (int i = 0; i < 50; i++) {
            use(&state);
        }
        ps_pages_trim_to(0);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

int main(void) {
    pthread_t threads[THREADS];
    int bad = 0;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    }
    for (uint32_t i = 0; i < FORKS && bad == 0; i++) {
        bad = fork_and_use(i);
    }
    __atomic_store_n(&x_stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    printf("status 0x%x, %zu bytes used\n", (unsigned)bad, stats.used_bytes);
    return bad == 0 && stats.used_bytes == 0 ? 0 : 1;
}
