/* SPDX-License-Identifier: MIT */
/*
 * Processes whose memory is resident for one known cause each, which `poolshim why` has to name:
 * the first argument is the cause, the second an amount in MiB or a path. Each writes "1" once it
 * is there, and "account" its own figures; then it goes on, or waits for the end of its input.
 * tests/cli/test_why.py compiles it, for glibc's malloc and others.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define HUGE_BYTES (2 * MIB)
#define BLOCK_BYTES ((size_t)1000)
#define THREADS 16
#define STACK_BYTES (MIB / 2)
#define CHILDREN 3
#define STEP_US 20000
#define STEP_BYTES ((size_t)64 << 10)
#define PIECE_BYTES ((size_t)1 << 16)

static void **blocks;
static pthread_barrier_t barrier;
static size_t amount;

static void say_ready(void) {
    if (write(1, "1\n", 2) != 2) {
        abort();
    }
}

static void rest(void) {
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}

static void *filled(void *block, size_t bytes) {
    if (block == NULL) {
        abort();
    }
    return memset(block, 0x5a, bytes);
}

/* Fills the table with blocks of one size, and lets nothing optimise a block away. */
static size_t fill_table(size_t total, size_t bytes) {
    size_t count = total / bytes;
    blocks = filled(malloc(count * sizeof *blocks), count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = filled(malloc(bytes), bytes);
    }
    return count;
}

/* Frees all blocks but the last one, and each `every`-th. */
static void thin_table(size_t count, size_t every) {
    for (size_t i = 0; i + 1 < count; i++) {
        if (every == 0 || i % every != 0) {
            free(blocks[i]);
        }
    }
}

static void grow(void) {
    say_ready();
    for (void **newest = NULL;;) {
        for (size_t done = 0; done < STEP_BYTES; done += BLOCK_BYTES) {
            void **block = filled(malloc(BLOCK_BYTES), BLOCK_BYTES);
            *block = newest;
            newest = block;
        }
        usleep(STEP_US);
    }
}

static void grow_mappings(void) {
    say_ready();
    for (;;) {
        void *more =
            mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        filled(more == MAP_FAILED ? NULL : more, STEP_BYTES);
        usleep(STEP_US);
    }
}

/* Memory that comes and goes, and one that is replaced all the time: neither grows. */
static void swing(void) {
    size_t count = fill_table(amount, BLOCK_BYTES);
    say_ready();
    for (unsigned random = 1;;) {
        void *request = filled(malloc(4 * MIB), 4 * MIB);
        for (size_t i = 0; i < 200; i++) {
            random = random * 1103515245 + 12345;
            size_t place = random / 65536 % count;
            free(blocks[place]);
            blocks[place] = filled(malloc(BLOCK_BYTES), BLOCK_BYTES);
        }
        usleep(STEP_US);
        free(request);
        usleep(STEP_US);
    }
}

static void *burst(void *unused) {
    size_t count = amount / THREADS / BLOCK_BYTES;
    void **own = filled(malloc(count * sizeof *own), count * sizeof *own);
    for (size_t i = 0; i < count; i++) {
        own[i] = filled(malloc(BLOCK_BYTES), BLOCK_BYTES);
    }
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i + 1 < count; i++) {
        free(own[i]);
    }
    pthread_barrier_wait(&barrier);
    rest();
    free(own[count - 1]);
    return unused;
}

static void *deep(void *unused) {
    volatile char frame[STACK_BYTES];
    for (size_t i = 0; i < sizeof frame; i += 64) {
        frame[i] = 1;
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    rest();
    return frame[0] == 1 ? unused : NULL;
}

static void run_threads(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) {
            abort();
        }
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    say_ready();
    rest();
}

static void use_huge_pages(void) {
    char *area =
        mmap(NULL, amount + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || madvise(area, amount + HUGE_BYTES, MADV_HUGEPAGE) != 0) {
        abort();
    }
    for (size_t at = 0; at < amount; at += HUGE_BYTES) {
        area[at + HUGE_BYTES / 2] = 1;
    }
}

static void fork_children(void) {
    size_t count = fill_table(amount, BLOCK_BYTES);
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            for (size_t at = 0; at < count; at++) {
                filled(blocks[at], BLOCK_BYTES);
            }
            rest();
            _exit(0);
        }
    }
    usleep(10 * STEP_US);
}

static void share(void) {
    void *area = mmap(NULL, amount, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    filled(area == MAP_FAILED ? NULL : area, amount);
}

/* Writes a file of 48 MiB, and reads it again. */
static void use_file(const char *path) {
    static char piece[PIECE_BYTES];
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(piece, 1, sizeof piece);
    for (size_t done = 0; done < 48 * MIB; done += sizeof piece) {
        if (write(file, piece, sizeof piece) != (ssize_t)sizeof piece) {
            abort();
        }
    }
    fsync(file);
    lseek(file, 0, SEEK_SET);
    while (read(file, piece, sizeof piece) > 0) {
    }
    close(file);
}

#ifdef __GLIBC__
/* The figures of malloc itself: taken from the system, free, of it in fastbins. */
static void account(size_t bytes) {
    char line[128];
    thin_table(fill_table(amount, bytes), 7);
    struct mallinfo2 own = mallinfo2();
    int length = snprintf(line, sizeof line, "%zu %zu %zu\n", own.arena, own.fordblks, own.fsmblks);
    say_ready();
    if (write(1, line, (size_t)length) != length) {
        abort();
    }
}
#endif

static void plant(const char *cause, const char *path) {
    if (strcmp(cause, "leak") == 0) {
        grow();
    } else if (strcmp(cause, "mappings") == 0) {
        grow_mappings();
    } else if (strcmp(cause, "swing") == 0) {
        swing();
    } else if (strcmp(cause, "arenas") == 0) {
        run_threads(burst);
    } else if (strcmp(cause, "stacks") == 0) {
        run_threads(deep);
    } else if (strcmp(cause, "tail") == 0) {
        thin_table(fill_table(amount, BLOCK_BYTES), 0);
    } else if (strcmp(cause, "small") == 0) {
        thin_table(fill_table(amount, 40), 0);
    } else if (strcmp(cause, "live") == 0) {
        fill_table(amount, BLOCK_BYTES);
    } else if (strcmp(cause, "large") == 0) {
        filled(malloc(amount), amount);
    } else if (strcmp(cause, "huge") == 0) {
        use_huge_pages();
    } else if (strcmp(cause, "fork") == 0) {
        fork_children();
    } else if (strcmp(cause, "shared") == 0) {
        share();
    } else if (strcmp(cause, "file") == 0) {
        use_file(path);
    } else {
        abort();
    }
}

int main(int count, char **words) {
    amount = count > 2 ? strtoul(words[2], NULL, 10) * MIB : 0;
#ifdef __GLIBC__
    if (count > 3) {
        account(strtoul(words[3], NULL, 10));
        rest();
        return 0;
    }
#endif
    plant(words[1], words[2]);
    say_ready();
    rest();
    return 0;
}
