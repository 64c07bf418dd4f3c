/* SPDX-License-Identifier: MIT */
/*
 * The detection of jemalloc by libraries (weak symbols, and a counter that a malloc moves), and the
 * counters of threads, exact by the block. Argument "frees": those of freed bytes, too.
 */
#include "claims.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t get(const char *name) { return READ(name, uint64_t); }
static uint64_t *get_address(const char *name) { return READ(name, uint64_t *); }

/* A malloc that the compiler does not leave out. */
static void *(*volatile hidden_malloc)(size_t) = malloc;
static void (*volatile hidden_free)(void *) = free;

/* As a library does: once, by all functions, and by the word at the pointer. */
static bool is_jemalloc(void) {
    static const void *const functions[] = {
        (const void *)mallocx,     (const void *)rallocx, (const void *)xallocx,
        (const void *)sallocx,     (const void *)dallocx, (const void *)sdallocx,
        (const void *)nallocx,     (const void *)mallctl, (const void *)mallctlnametomib,
        (const void *)mallctlbymib};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i] == NULL) {
            return false;
        }
    }
    volatile uint64_t *counter;
    size_t length = sizeof counter;
    if (mallctl("thread.allocatedp", (void *)&counter, &length, NULL, 0) != 0 ||
        length != sizeof counter) {
        return false;
    }
    uint64_t before = *counter;
    void *block = hidden_malloc(1);
    hidden_free(block);
    return before != *counter;
}

static void allocated_bytes_are_exact(void) {
    volatile uint64_t *counter = get_address("thread.allocatedp");
    CLAIM(*counter == get("thread.allocated"));
    for (size_t size = 1; size < (size_t)50 << 20; size = size * 5 / 3 + 7) {
        uint64_t before = *counter;
        void *block = hidden_malloc(size);
        CLAIM(*counter == before + malloc_usable_size(block));
        hidden_free(block);
        block = calloc(1, size);
        CLAIM(*counter >= before + size * 2);
        hidden_free(block);
        before = *counter;
        block = mallocx(size, MALLOCX_ALIGN(64));
        CLAIM(*counter == before + sallocx(block, 0));
        dallocx(block, 0);
    }
    CLAIM(*counter == get("thread.allocated") && counter == get_address("thread.allocatedp"));
}

static void freed_bytes_are_exact(void) {
    volatile uint64_t *counter = get_address("thread.deallocatedp");
    for (size_t size = 1; size < (size_t)50 << 20; size = size * 5 / 3 + 7) {
        void *blocks[100];
        size_t count = size < 10000 ? 100 : 3;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = hidden_malloc(size);
        }
        size_t length = malloc_usable_size(blocks[0]);
        uint64_t before = *counter;
        for (size_t i = 0; i < count; i++) {
            hidden_free(blocks[i]);
            CLAIM(*counter == before + (i + 1) * length);
        }
    }
    CLAIM(*counter == get("thread.deallocated") && counter == get_address("thread.deallocatedp"));
}

static void resized_blocks_count_as_what_they_are(void) {
    uint64_t live = get("thread.allocated") - get("thread.deallocated");
    for (size_t size = 1; size < (size_t)50 << 20; size = size * 5 / 3 + 7) {
        void *block = hidden_malloc(size);
        block = rallocx(block, size * 2, 0);
        block = rallocx(block, size * 2 - size / 3, 0);
        (void)xallocx(block, size + size / 7, size / 3, 0);
        uint64_t now = get("thread.allocated") - get("thread.deallocated");
        CLAIM(now == live + malloc_usable_size(block));
        hidden_free(block);
    }
}

static void peaks_are_noted(void) {
    CLAIM(ACT("thread.peak.reset") == 0);
    uint64_t base = get("thread.peak.read");
    void *block = mallocx(5000, 0);
    size_t length = sallocx(block, 0);
    CLAIM(get("thread.peak.read") == base + length);
    hidden_free(block);
    CLAIM(get("thread.peak.read") == base + length);
    hidden_free(hidden_malloc(10 << 20));
    CLAIM(get("thread.peak.read") >= base + (10 << 20));
    CLAIM(ACT("thread.peak.reset") == 0 && get("thread.peak.read") == 0);
}

static bool has_frees;

static void *run(void *argument) {
    uint64_t before = get("thread.allocated");
    CLAIM(before < 1 << 20); /* another thread's are not in it */
    allocated_bytes_are_exact();
    if (has_frees) {
        freed_bytes_are_exact();
        resized_blocks_count_as_what_they_are();
        peaks_are_noted();
        hidden_free(argument); /* the other thread's block counts here */
    }
    return hidden_malloc(1000);
}

static pthread_key_t late_key;

/* After the library's own destructor, in later rounds of them. */
static void allocate_late(void *rounds) {
    for (size_t i = 0; i < 100; i++) {
        hidden_free(hidden_malloc(i * 50));
    }
    if ((uintptr_t)rounds > 1) {
        CLAIM(pthread_setspecific(late_key, (char *)rounds - 1) == 0);
    }
}

static void *end_late(void *argument) {
    (void)argument;
    allocated_bytes_are_exact();
    if (has_frees) {
        freed_bytes_are_exact();
    }
    CLAIM(pthread_setspecific(late_key, (void *)3) == 0);
    return NULL;
}

static void *ask_nothing(void *argument) {
    for (int i = 0; i < 1000; i++) {
        hidden_free(hidden_malloc(1000));
    }
    return argument;
}

static void threads_end_while_they_are_counted(void) {
    CLAIM(pthread_key_create(&late_key, allocate_late) == 0);
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, i % 2 == 0 ? end_late : ask_nothing, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
}

static void a_child_counts_on(void) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        allocated_bytes_are_exact();
        if (has_frees) {
            freed_bytes_are_exact();
            peaks_are_noted();
        }
        _exit(0);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
}

static pthread_barrier_t counted;

static void *count_until_the_end(void *argument) {
    CLAIM(get("thread.allocated") < 1 << 20);
    for (int i = 0; i < 20000; i++) {
        hidden_free(hidden_malloc(1000));
    }
    CLAIM(get("thread.allocated") > 1000 * 19000);
    (void)pthread_barrier_wait(&counted);
    (void)pthread_barrier_wait(&counted);
    return argument;
}

static void *count_from_zero(void *argument) {
    CLAIM(get("thread.allocated") < 1 << 20);
    return argument;
}

/* The parent's other thread does not exist in the child. */
static void new_threads_of_a_child_count_from_zero(void) {
    pthread_t thread;
    CLAIM(pthread_barrier_init(&counted, NULL, 2) == 0);
    CLAIM(pthread_create(&thread, NULL, count_until_the_end, NULL) == 0);
    (void)pthread_barrier_wait(&counted);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        CLAIM(pthread_create(&thread, NULL, count_from_zero, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
    (void)pthread_barrier_wait(&counted);
    CLAIM(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    has_frees = argc > 1 && strcmp(argv[1], "frees") == 0;
    CLAIM(is_jemalloc());
    allocated_bytes_are_exact();
    for (int i = 0; i < 200000; i++) { /* beyond the requests that are counted exactly */
        hidden_free(hidden_malloc(100));
    }
    uint64_t before = get("thread.allocated");
    CLAIM(before > 200000 * 100 / 2);
    CLAIM(is_jemalloc());
    allocated_bytes_are_exact();
    if (has_frees) {
        freed_bytes_are_exact();
        resized_blocks_count_as_what_they_are();
        peaks_are_noted();
    }
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        CLAIM(pthread_create(&thread, NULL, run, hidden_malloc(3000)) == 0);
        CLAIM(pthread_join(thread, &result) == 0);
        hidden_free(result);
    }
    threads_end_while_they_are_counted();
    a_child_counts_on();
    new_threads_of_a_child_count_from_zero();
    return 0;
}
