// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=20
/* SPDX-License-Identifier: MIT */
/*
 * After start-up a filter kills the process at any system call but these: mmap, munmap, mprotect,
 * mremap, madvise, mincore, futex, write, exit, exit_group, and what threads need to end. (brk,
 * open, read, getpid, clock_gettime and gettid are deadly.) All regimes, five threads that exist
 * already, frees across threads, thread ends, trimming, a forced purge, and the end of the
 * background thread in silence work.
 */
#include "claim.h"
#include "heap_use.h"

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define THREADS 5
#define BLOCKS 3000

static pthread_barrier_t barrier;
static unsigned char *shared[THREADS][BLOCKS];

static const int allowed[] = {
    SYS_mmap,  SYS_munmap, SYS_mprotect, SYS_mremap,     SYS_madvise,        SYS_mincore,
    SYS_futex, SYS_write,  SYS_exit,     SYS_exit_group, SYS_rt_sigprocmask, /* of pthread_exit */
};
#define ALLOWED_COUNT (sizeof allowed / sizeof allowed[0])

static void allow_basic_calls_only(void) {
    struct sock_filter filter[2 * ALLOWED_COUNT + 2];
    size_t length = 0;
    filter[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED_COUNT; i++) {
        filter[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    CLAIM(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        claim_skip("no seccomp filters here");
    }
}

static size_t size_of(unsigned i) { return i % 50 == 0 ? i * 97 % 300000 + 1 : i * 31 % 2000 + 1; }

/* Longer than the background thread lives beside one thread that makes no call. */
static void keep_silent(void) {
    const struct timespec silence = {2, 0};
    unsigned word = 0;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &silence, NULL, 0);
}

static void *live_confined(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    pthread_barrier_wait(&barrier); /* all threads have started */
    pthread_barrier_wait(&barrier); /* all threads are confined */
    for (int round = 0; round < 5; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            shared[self][i] = malloc(size_of(i));
            CLAIM(shared[self][i] != NULL);
            shared[self][i][0] = (unsigned char)self;
        }
        CLAIM(heap_use());
        pthread_barrier_wait(&barrier);
        unsigned neighbour = (self + 1) % THREADS;
        for (unsigned i = 0; i < BLOCKS; i++) {
            CLAIM(shared[neighbour][i][0] == neighbour);
            free(shared[neighbour][i]);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CLAIM(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    free(claim_hide(malloc(100)));
    for (unsigned i = 0; i < THREADS; i++) {
        void *self = (void *)(uintptr_t)i;
        CLAIM(pthread_create(&threads[i], NULL, live_confined, self) == 0);
    }
    pthread_barrier_wait(&barrier);
    allow_basic_calls_only();
    for (int wait = 0; wait < 11; wait++) {
        pthread_barrier_wait(&barrier);
        CLAIM(heap_use());
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    keep_silent();
    for (size_t size = 64; size < ((size_t)1 << 28); size *= 4) {
        unsigned char *block = calloc(1, size);
        CLAIM(block != NULL && block[size - 1] == 0);
        block[size / 2] = 1;
        block = realloc(block, size * 3);
        CLAIM(block != NULL && block[size / 2] == 1);
        free(block);
    }
    malloc_trim(0);
    CLAIM(heap_use());
    CLAIM(malloc_usable_size(NULL) == 0);
    _exit(0);
}
