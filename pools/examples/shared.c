/* SPDX-License-Identifier: MIT */
/*
 * A list of jobs that processes put in and take out. One of the workers crashes; the others go on,
 * and its last job is found again, because each worker notes what it works on in the heap.
 */
#include <poolshim/shared.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, JOBS = 300 };

struct job {
    int number;
};

struct board {
    ps_offset jobs[JOBS];     /* queued */
    ps_offset taken[WORKERS]; /* what each works on */
    int next[WORKERS];        /* the next job of each */
    unsigned long sums[WORKERS];
};

static struct ps_shared *open_heap(const char *path) {
    struct ps_shared *heap;
    enum ps_shared_status status = ps_shared_open(&heap, path, PS_SHARED_CREATE, NULL);
    if (status != PS_SHARED_OK) {
        fprintf(stderr, "%s: %s\n", path, ps_shared_explain(status));
        exit(1);
    }
    return heap;
}

/* Every worker has the jobs of its own numbers: 0, 3, 6 ... */
static int work(const char *path, int worker) {
    struct ps_shared *heap = open_heap(path);
    struct board *board = PS_SHARED_AT(heap, struct board, ps_shared_root(heap, "board"));
    for (int i = worker; i < JOBS; i += WORKERS) {
        board->taken[worker] = board->jobs[i];
        board->jobs[i] = 0;
        board->next[worker] = i + WORKERS;
        struct job *job = PS_SHARED_AT(heap, struct job, board->taken[worker]);
        if (worker == 1 && i > JOBS / 2) {
            kill(getpid(), SIGKILL); /* a crash, with a job in hand */
        }
        board->sums[worker] += (unsigned long)job->number;
        ps_shared_free_from(heap, &board->taken[worker]);
    }
    ps_shared_close(heap);
    return 0;
}

static int collect(const char *path, struct ps_shared *heap, struct board *board) {
    unsigned long sum = 0;
    for (int worker = 0; worker < WORKERS; worker++) {
        struct job *lost = PS_SHARED_AT(heap, struct job, board->taken[worker]);
        if (lost != NULL) {
            printf("worker %d left job %d\n", worker, lost->number);
            board->sums[worker] += (unsigned long)lost->number;
            ps_shared_free_from(heap, &board->taken[worker]);
        }
        for (int i = board->next[worker]; i < JOBS; i += WORKERS) { /* what it did not reach */
            struct job *job = PS_SHARED_AT(heap, struct job, board->jobs[i]);
            if (job != NULL) {
                board->sums[worker] += (unsigned long)job->number;
                ps_shared_free_from(heap, &board->jobs[i]);
            }
        }
        sum += board->sums[worker];
    }
    struct ps_shared_stats stats;
    ps_shared_stats(heap, &stats);
    printf("%d jobs, sum %lu, %zu block in use\n", JOBS, sum, stats.used_count);
    ps_shared_close(heap);
    unlink(path);
    return sum == (unsigned long)JOBS * (JOBS - 1) / 2 && stats.used_count == 1 ? 0 : 1;
}

int main(void) {
    const char *path = "jobs.shared"; /* /dev/shm/jobs where it may not reach a disk */
    unlink(path);
    struct ps_shared *heap = open_heap(path);
    struct board *board = ps_shared_zalloc(heap, sizeof *board);
    if (board == NULL || !ps_shared_set_root(heap, "board", ps_shared_offset(heap, board))) {
        perror(path);
        return 1;
    }
    for (int i = 0; i < JOBS; i++) {
        struct job *job = ps_shared_alloc_into(heap, sizeof *job, &board->jobs[i]);
        if (job == NULL) {
            perror(path);
            return 1;
        }
        job->number = i;
    }
    pid_t pids[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            _exit(work(path, i));
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        waitpid(pids[i], NULL, 0);
    }
    return collect(path, heap, board);
}
