// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * At a limit on addresses a small request fails only when no longer one would succeed either, and
 * a block that was freed serves again. The contents and alignment of all blocks are preserved, also
 * in the child of a fork and when other threads free them. At every hardening level. At level 3 the
 * addresses of a call site serve it alone: those that are free again are of no use to others.
 */
#include "claim.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define SPARE_BYTES (24 * MIB) /* level 3 needs some for itself */
#define BLOCKS 100000

static void *blocks[BLOCKS];
static size_t sizes[BLOCKS];
static size_t count;

/* Bytes of addresses that this process has. */
static size_t address_bytes(void) {
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CLAIM(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void *allocate(size_t bytes, size_t align) {
    void *block = NULL;
    if (align == 0) {
        errno = 0;
        block = malloc(bytes);
        CLAIM(block != NULL || errno == ENOMEM);
    } else if (posix_memalign(&block, align, bytes) != 0) {
        return NULL;
    }
    CLAIM(claim_is_aligned(block, align != 0 ? align : bytes > 8 ? 16 : 8));
    return block;
}

/* Allocates blocks until there are no more. */
static void fill(size_t bytes, size_t align) {
    while (count < BLOCKS) {
        void *block = allocate(bytes, align);
        if (block == NULL) {
            return;
        }
        CLAIM(malloc_usable_size(block) >= bytes);
        claim_fill(block, bytes, (unsigned)count);
        blocks[count] = block;
        sizes[count++] = bytes;
    }
    CLAIM(!"all memory was used up");
}

/* Frees every `step`th block from `first` on. */
static void give(size_t first, size_t step) {
    for (size_t i = first; i < count; i += step) {
        if (blocks[i] != NULL) {
            CLAIM(claim_is_filled(blocks[i], sizes[i], (unsigned)i));
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static void *give_third(void *unused) {
    (void)unused;
    give(1, 3);
    return NULL;
}

static void replace_one_by_one(size_t first, size_t last) {
    for (size_t i = first; i < last; i += (last - first) / 50 + 1) {
        free(blocks[i]);
        blocks[i] = allocate(sizes[i], 0);
        CLAIM(blocks[i] != NULL);
        claim_fill(blocks[i], sizes[i], (unsigned)i);
    }
}

/* A block above the classes, or at level 3 one of the call site of the others. */
static void claim_that_memory_serves_again(int level) {
    CLAIM(level < 3 ? malloc(100000) != NULL : allocate(4104, 0) != NULL);
}

static void run(int level) {
    pthread_t thread;
    void *pinning = malloc(40000); /* in a region of medium blocks: the rest of it is free */
    CLAIM(pinning != NULL && allocate(8, 0) != NULL);
    CLAIM(pthread_create(&thread, NULL, give_third, NULL) == 0); /* its stack is reused below */
    pthread_join(thread, NULL);
    size_t limit_bytes = address_bytes() + SPARE_BYTES;
    const struct rlimit limit = {limit_bytes, limit_bytes};
    CLAIM(setrlimit(RLIMIT_AS, &limit) == 0);
    fill(4104, 0);
    fill(192, 64);
    fill(8, 0);
    for (size_t bytes = 8192; bytes <= 16384; bytes *= 2) {
        CLAIM(malloc(bytes) == NULL);
    }
    if (level < 2) { /* otherwise freed blocks are in quarantine at first */
        replace_one_by_one(0, count);
    }
    CLAIM(pthread_create(&thread, NULL, give_third, NULL) == 0);
    pthread_join(thread, NULL);
    size_t before = count;
    fill(4104, 0);
    CLAIM(count > before);
    fill(40, 8);
    pid_t child = fork();
    if (child == 0) {
        give(0, 1);
        claim_that_memory_serves_again(level);
        _exit(0);
    }
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    give(0, 1);
    free(pinning);
    claim_that_memory_serves_again(level);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        run(atoi(argv[1]));
        return 0;
    }
    for (int level = 0; level <= 3; level++) {
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            char text[] = {(char)('0' + level), '\0'};
            CLAIM(setenv("POOLSHIM_HARDEN", text, 1) == 0);
            execl("/proc/self/exe", argv[0], text, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        CLAIM(waitpid(child, &status, 0) == child);
        CLAIM(status == 0);
    }
    return 0;
}
