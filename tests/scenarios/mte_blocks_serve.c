// expect: exit 0
// env: POOLSHIM_HARDEN=mte
// timeout: 120
/* SPDX-License-Identifier: MIT */
/* Tagged blocks have malloc's sizes, alignment and contents, and tags that follow their rules: none
 * is 0, neighbours differ, and no block has a tag again that it had in one of its last three lives.
 * Memory of blocks that were freed serves large ones, threads, and the child of a fork. */
#include "mte.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 3000
#define CODE_OF_TAGS 9

static char *blocks[BLOCKS];

static int by_address(const void *left, const void *right) {
    uintptr_t a = address_of(*(char *const *)left);
    uintptr_t b = address_of(*(char *const *)right);
    return a < b ? -1 : a > b;
}

static void neighbours_differ(size_t size) {
    size_t count = size > 4096 ? 60 : BLOCKS;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = claim_hide(malloc(size));
        CLAIM(blocks[i] != NULL && tag_of(blocks[i]) != 0 && tag_of(blocks[i]) < 16);
        memset(blocks[i], 1, size);
    }
    qsort(blocks, count, sizeof blocks[0], by_address);
    for (size_t i = 1; i < count; i++) {
        uintptr_t end = address_of(blocks[i - 1]) + malloc_usable_size(blocks[i - 1]);
        CLAIM(end <= address_of(blocks[i]));
        CLAIM(end != address_of(blocks[i]) || tag_of(blocks[i]) != tag_of(blocks[i - 1]));
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void tags_return_late(void) {
    unsigned last[3] = {0};
    uintptr_t address = 0;
    for (int life = 0; life < 2000; life++) {
        char *block = claim_hide(malloc(200));
        CLAIM(address == 0 || address == address_of(block));
        address = address_of(block);
        for (int i = 0; i < 3; i++) {
            CLAIM(tag_of(block) != last[i]);
        }
        last[life % 3] = tag_of(block);
        free(block);
    }
}

static void contents_remain(void) {
    for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
        unsigned char *block = claim_hide(malloc(size));
        CLAIM(claim_is_aligned(block, size > 8 ? 16 : 8) && malloc_usable_size(block) >= size);
        claim_fill(block, size, 1);
        block = claim_hide(realloc(block, size * 2));
        CLAIM(block != NULL && claim_is_filled(block, size, 1));
        block = claim_hide(realloc(block, size / 3 + 1));
        CLAIM(block != NULL && claim_is_filled(block, size / 3 + 1, 1));
        free(block);
        unsigned char *zeroed = claim_hide(calloc(1, size));
        CLAIM(claim_is_zero(zeroed, size));
        free(zeroed);
        void *aligned = NULL;
        CLAIM(posix_memalign(&aligned, 4096, size) == 0 && claim_is_aligned(aligned, 4096));
        free(aligned);
    }
    char *empty = claim_hide(malloc(0));
    CLAIM(empty != NULL);
    free(empty);
}

/* Large blocks, and blocks of other sizes, in memory that had tags. */
static void memory_serves_again(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = claim_hide(malloc(round % 2 == 0 ? 1500 : 640));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
        malloc_trim(0);
        for (size_t i = 0; i < 20; i++) {
            char *large = claim_hide(malloc(300000));
            memset(large, 1, 300000);
            blocks[i] = large;
        }
        for (size_t i = 0; i < 20; i++) {
            free(blocks[i]);
        }
    }
}

static void *use(void *argument) {
    for (size_t i = 0; i < 2000; i++) {
        char *block = claim_hide(malloc(i % 900 + 1));
        memset(block, 1, i % 900 + 1);
        free(block);
    }
    free(argument);
    return claim_hide(malloc(77));
}

static void threads_share_blocks(void) {
    for (int round = 0; round < 4; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            CLAIM(pthread_create(&threads[i], NULL, use, claim_hide(malloc(100))) == 0);
        }
        for (int i = 0; i < 4; i++) {
            void *result;
            CLAIM(pthread_join(threads[i], &result) == 0);
            memset(result, 1, 77);
            free(result);
        }
    }
}

static sigjmp_buf back;
static int seen_code;
static uintptr_t seen_address;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    seen_code = info->si_code;
    seen_address = address_of(info->si_addr);
    siglongjmp(back, 1);
}

static void own_handler_sees_the_fault(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CLAIM(sigaction(SIGSEGV, &action, NULL) == 0);
    char *block = claim_hide(malloc(32));
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)(block + 32) = 1;
        CLAIM(!"the write behind the end has passed");
    }
    CLAIM(seen_code == CODE_OF_TAGS && seen_address == address_of(block) + 32);
    free(block);
}

static void child_of_a_fork_serves_itself(void) {
    char *inherited = claim_hide(malloc(100));
    pid_t pid = fork();
    CLAIM(pid >= 0);
    if (pid == 0) {
        memset(inherited, 1, 100);
        free(inherited);
        tags_return_late();
        own_handler_sees_the_fault();
        _exit(0);
    }
    int status;
    CLAIM(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(inherited);
}

int main(void) {
    skip_without_tags();
    child_of_a_fork_serves_itself();
    static const size_t sizes[] = {1, 16, 40, 256, 512, 1000, 1024, 4096, 8192, 20000, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        neighbours_differ(sizes[i]);
    }
    tags_return_late();
    contents_remain();
    memory_serves_again();
    threads_share_blocks();
    own_handler_sees_the_fault();
    return 0;
}
