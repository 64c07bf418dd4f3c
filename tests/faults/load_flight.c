/* SPDX-License-Identifier: MIT */
/*
 * Leaks blocks from one of many call stacks, and ends.
 *
 *   load_flight MIB BLOCK_BYTES END [DEPTHS]
 *
 * END: exit, _exit, term, abort, segv, kill; forever, which leaks without a bound; fork, whose
 * child leaks as much again and is killed; vfork, whose child does the same within its parent's
 * memory and ends. DEPTHS: of the recursion above a leak, a call stack each. A request that fails
 * ends it with status 9.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile held;
static volatile int sink;

__attribute__((noinline)) static void leak_here(size_t bytes) {
    void **block = malloc(bytes);
    if (block == NULL) {
        _exit(9);
    }
    memset(block, 1, bytes);
    *block = held;
    held = block;
}

__attribute__((noinline)) static void come_and_go(size_t bytes) {
    char *volatile block = malloc(bytes);
    if (block != NULL) {
        block[0] = 1;
    }
    free(block);
}

__attribute__((noinline)) static void descend(size_t bytes, size_t depth) {
    if (depth == 0) {
        leak_here(bytes);
    } else {
        descend(bytes, depth - 1);
    }
    sink++;
}

static void leak(size_t total_bytes, size_t bytes, size_t depths) {
    for (size_t i = 0; i < total_bytes / bytes; i++) {
        descend(bytes, i % depths);
        come_and_go(bytes);
    }
}

static int end(const char *how, size_t total_bytes, size_t bytes) {
    static const struct {
        const char *how;
        int number;
    } signals[] = {{"term", SIGTERM}, {"kill", SIGKILL}, {"segv", SIGSEGV}, {"abort", SIGABRT}};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (strcmp(how, signals[i].how) == 0) {
            (void)raise(signals[i].number);
        }
    }
    if (strcmp(how, "_exit") == 0) {
        _exit(0);
    }
    if (strcmp(how, "fork") == 0 || strcmp(how, "vfork") == 0) {
        pid_t child = how[0] == 'v' ? vfork() : fork();
        if (child == 0) {
            if (how[0] == 'v') {
                come_and_go(total_bytes);
                _exit(0);
            }
            leak(total_bytes, bytes, 1);
            (void)raise(SIGKILL);
        }
        (void)waitpid(child, NULL, 0);
        printf("%ld\n", (long)child);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        return 2;
    }
    size_t total_bytes = (size_t)strtoul(argv[1], NULL, 10) << 20;
    size_t bytes = strtoul(argv[2], NULL, 10);
    size_t depths = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    do {
        leak(total_bytes, bytes, depths);
    } while (strcmp(argv[3], "forever") == 0);
    return end(argv[3], total_bytes, bytes);
}
