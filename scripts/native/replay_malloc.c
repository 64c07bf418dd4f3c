/* SPDX-License-Identifier: MIT */
/*
 * replay_malloc FILE: makes the calls of a file by malloc, and prints what they cost, as JSON.
 * `poolshim compare --trace` runs it with each allocator preloaded; the file is written by
 * poolshim_cli/compare/order.py.
 *
 * Each thread of the file is a thread here. One runs at a time, in the order of the file; a turn is
 * handed on by a semaphore. The file's first thread is the main thread, which glibc serves
 * otherwise than the rest. Blocks are written to once allocated: each cache line of the first page,
 * then each page; of large blocks the share that the file says. cpu_ns is the time of the threads'
 * own clocks for calls and writes, without the reads of the file and the waits for a turn. The file
 * goes through one small buffer, and what this program needs itself is mapped at the start, the
 * same for every allocator: peak_rss_bytes excludes it. Exit status: 0, 2 for a bad command line or
 * file, 1 when memory is exhausted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x314d5250u /* "PRM1" */
#define THREADS_MAX 65536
#define BLOCKS_MAX ((uint32_t)1 << 30)
#define BUFFER_OPS 4096
#define LINE_BYTES 64
#define PAGE_BYTES 4096
#define LARGE_BYTES ((uint32_t)1 << 20) /* from here on the share applies */
#define SHARE_UNIT 65536                /* a whole block */
#define ALIGN_SHIFT_MAX 30

/* ALIGN: by align_shift. END: the thread ends; never the first one. */
enum kind { ALLOC, ZALLOC, ALIGN, REALLOC, FREE, END, KINDS };

struct op {
    uint32_t place; /* of the block */
    uint32_t bytes; /* requested */
    uint16_t thread;
    uint8_t kind;
    uint8_t align_shift;
};

struct file_header {
    uint32_t magic;
    uint32_t block_count;
    uint32_t thread_count;
    uint32_t large_share; /* of SHARE_UNIT: what is written to of large blocks */
};

struct block {
    void *address; /* NULL: none */
    uint32_t bytes;
    uint32_t padding;
};

struct thread {
    sem_t turn;
    bool is_alive;
};

static struct file_header header;
static struct block *blocks;
static struct thread *threads;
static size_t table_bytes;

/* What the thread whose turn it is reads and writes. */
static struct {
    int file;
    struct op *ops; /* BUFFER_OPS */
    size_t count;
    size_t next;
    pthread_t ended; /* a thread that has ended and was not joined */
    bool has_ended;
    uint64_t cpu_ns;
    uint64_t call_count;
    uint64_t live_bytes;
    uint64_t live_bytes_peak;
} play = {.file = -1};

static void fail(int status, const char *what) {
    fprintf(stderr, "replay_malloc: %s\n", what);
    _exit(status);
}

/* Resident from here on, and in no huge page, so that it is the same in every process. */
static void *map_table(size_t bytes) {
    size_t whole = (bytes + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    char *table = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) {
        fail(EXIT_FAILURE, "memory is exhausted");
    }
    (void)madvise(table, whole, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < whole; at += PAGE_BYTES) {
        *(volatile char *)(table + at) = 0;
    }
    table_bytes += whole;
    return table;
}

/* ---- the file ---- */

static bool is_sound(const struct op *op) {
    return op->kind < KINDS && op->place < header.block_count && op->thread < header.thread_count &&
           op->align_shift <= ALIGN_SHIFT_MAX && (op->kind != END || op->thread != 0);
}

/* Reads up to so many bytes; less at the end of the file. */
static size_t read_whole(void *out, size_t bytes) {
    size_t done = 0;
    while (done < bytes) { /* ends: each turn reads something */
        ssize_t got = read(play.file, (char *)out + done, bytes - done);
        if (got < 0 && errno != EINTR) {
            fail(2, strerror(errno));
        }
        if (got == 0) {
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return done;
}

/* False at the end of the file. */
static bool refill(void) {
    size_t bytes = read_whole(play.ops, BUFFER_OPS * sizeof *play.ops);
    if (bytes % sizeof *play.ops != 0) {
        fail(2, "the file ends early");
    }
    play.count = bytes / sizeof *play.ops;
    play.next = 0;
    for (size_t i = 0; i < play.count; i++) {
        if (!is_sound(&play.ops[i])) {
            fail(2, "the file has a call that cannot be made");
        }
    }
    return play.count != 0;
}

/* The next call without taking it; NULL at the end of the file. */
static const struct op *peek(void) {
    return play.next < play.count || refill() ? &play.ops[play.next] : NULL;
}

static void open_file(const char *path) {
    play.file = open(path, O_RDONLY | O_CLOEXEC);
    if (play.file < 0) {
        fail(2, strerror(errno));
    }
    if (read_whole(&header, sizeof header) != sizeof header || header.magic != MAGIC ||
        header.thread_count == 0 || header.thread_count > THREADS_MAX ||
        header.block_count > BLOCKS_MAX || header.large_share > SHARE_UNIT) {
        fail(2, "the file is no order of calls");
    }
    blocks = map_table(header.block_count * sizeof *blocks);
    threads = map_table(header.thread_count * sizeof *threads);
    play.ops = map_table(BUFFER_OPS * sizeof *play.ops);
}

/* ---- calls ---- */

static uint32_t used_bytes(uint32_t bytes) {
    if (bytes < LARGE_BYTES) {
        return bytes;
    }
    return (uint32_t)((uint64_t)bytes * header.large_share / SHARE_UNIT);
}

static void touch(char *block, uint32_t begin, uint32_t end) {
    for (uint64_t at = begin; at < end; at += at < PAGE_BYTES ? LINE_BYTES : PAGE_BYTES) {
        *(volatile char *)(block + at) = 1;
    }
    if (end > begin) {
        *(volatile char *)(block + end - 1) = 1;
    }
}

static void *alloc_as(const struct op *op) {
    size_t align = (size_t)1 << op->align_shift;
    void *block = NULL;
    switch (op->kind) {
    case ZALLOC:
        return calloc(1, op->bytes);
    case ALIGN:
        align = align < sizeof(void *) ? sizeof(void *) : align;
        return posix_memalign(&block, align, op->bytes) == 0 ? block : NULL;
    default:
        return malloc(op->bytes);
    }
}

static void resize(struct block *block, uint32_t bytes) {
    /* realloc to 0 bytes frees in some allocators; the traced program received a block. */
    void *resized = realloc(block->address, bytes == 0 ? 1 : bytes);
    uint32_t old = block->address != NULL ? used_bytes(block->bytes) : 0;
    if (resized == NULL) {
        fail(EXIT_FAILURE, "memory is exhausted");
    }
    play.live_bytes += bytes - (uint64_t)block->bytes;
    block->address = resized;
    touch(resized, old, used_bytes(bytes));
    block->bytes = bytes;
}

static void make_call(const struct op *op) {
    struct block *block = &blocks[op->place];
    play.call_count++;
    if (op->kind == FREE) {
        free(block->address);
        play.live_bytes -= block->bytes;
        *block = (struct block){.address = NULL};
        return;
    }
    if (op->kind == REALLOC) {
        resize(block, op->bytes);
    } else {
        block->address = alloc_as(op);
        if (block->address == NULL && op->bytes != 0) {
            fail(EXIT_FAILURE, "memory is exhausted");
        }
        block->bytes = op->bytes;
        play.live_bytes += op->bytes;
        touch(block->address, 0, used_bytes(op->bytes));
    }
    if (play.live_bytes > play.live_bytes_peak) {
        play.live_bytes_peak = play.live_bytes;
    }
}

/* ---- threads ---- */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Makes the calls up to another thread's, to the thread's end, or to that of the file. */
static void play_turn(uint32_t self) {
    for (;;) {                        /* ends: with the file at the latest */
        const struct op *op = peek(); /* reads outside of the measured time */
        if (op == NULL || op->thread != self || op->kind == END) {
            return;
        }
        uint64_t start = now_ns();
        while (play.next < play.count && op->thread == self && op->kind != END) {
            make_call(op);
            play.next++;
            op++;
        }
        play.cpu_ns += now_ns() - start;
    }
}

static void *play_thread(void *argument);

/* Lets another thread go on, or begin. */
static void hand_over(uint32_t to) {
    struct thread *thread = &threads[to];
    pthread_t begun;
    if (thread->is_alive) {
        sem_post(&thread->turn);
        return;
    }
    thread->is_alive = true;
    sem_init(&thread->turn, 0, 0);
    if (pthread_create(&begun, NULL, play_thread, (void *)(uintptr_t)to) != 0) {
        fail(EXIT_FAILURE, "a thread cannot be started");
    }
}

static void wait_for_turn(uint32_t self) {
    while (sem_wait(&threads[self].turn) != 0) { /* ends: only a signal interrupts it */
    }
}

static void join_ended(void) {
    if (play.has_ended) {
        pthread_join(play.ended, NULL);
        play.has_ended = false;
    }
}

/* Turn by turn to the thread's end. The main thread returns at the end of the file. */
static void play_turns(uint32_t self) {
    for (;;) { /* ends: with the file at the latest */
        join_ended();
        play_turn(self);
        const struct op *op = peek();
        bool is_end = op != NULL && op->thread == self;
        if (op == NULL && self == 0) {
            return;
        }
        if (is_end) {
            play.next++;
            op = peek();
            threads[self].is_alive = false;
            play.ended = pthread_self();
            play.has_ended = true;
        }
        hand_over(op != NULL ? op->thread : 0);
        if (is_end) {
            return;
        }
        wait_for_turn(self);
    }
}

static void *play_thread(void *argument) {
    play_turns((uint32_t)(uintptr_t)argument);
    return NULL;
}

/* ---- the answer ---- */

static uint64_t peak_bytes(void) {
    char text[4096];
    int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = status >= 0 ? read(status, text, sizeof text - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line != NULL ? strtoull(line + strlen("VmHWM:"), NULL, 10) << 10 : 0;
}

static void print_answer(void) {
    char text[512];
    uint64_t peak = peak_bytes();
    int length = snprintf(
        text, sizeof text,
        "{\"cpu_ns\": %llu, \"calls\": %llu, \"peak_rss_bytes\": %llu, \"table_bytes\": %llu, "
        "\"live_bytes_peak\": %llu}\n",
        (unsigned long long)play.cpu_ns, (unsigned long long)play.call_count,
        (unsigned long long)(peak > table_bytes ? peak - table_bytes : 0),
        (unsigned long long)table_bytes, (unsigned long long)play.live_bytes_peak);
    if (write(STDOUT_FILENO, text, (size_t)length) != length) {
        fail(EXIT_FAILURE, "the answer cannot be written");
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fail(2, "usage: replay_malloc FILE");
    }
    open_file(argv[1]);
    sem_init(&threads[0].turn, 0, 0);
    threads[0].is_alive = true;
    play_turns(0);
    print_answer();
    return EXIT_SUCCESS; /* blocks live on, as those of the traced program did */
}
