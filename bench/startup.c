/* SPDX-License-Identifier: MIT */
/*
 * Start-up: what an allocator adds to a process that hardly allocates. Shells and build systems
 * start thousands of those.
 *
 * Timed, wall clock: `processes` times a new process from start to end, one after the other. It is
 * this program itself with --child, which makes three small allocations and ends; it inherits
 * LD_PRELOAD, and so has the allocator under test. An operation is one process. What one such
 * process needs in memory, the launcher tells when it runs `startup --child` itself.
 */
#include "lib/workload.h"

#include <spawn.h>
#include <sys/wait.h>

enum { CHILD_BLOCKS = 3, CHILD_BYTES = 100, PASS_STATUS = 3 };

static uint64_t processes = 200;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"processes", &processes, 1, 1000000, "processes per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

static char *child_arguments[] = {"startup", "--child", NULL};

/* Not through stdio, whose buffer would be one more allocation. */
static int be_child(bool is_json) {
    void *blocks[CHILD_BLOCKS];
    for (int i = 0; i < CHILD_BLOCKS; i++) {
        blocks[i] = bench_malloc(CHILD_BYTES);
        bench_mark(blocks[i], CHILD_BYTES, (uint64_t)i);
    }
    for (int i = 0; i < CHILD_BLOCKS; i++) {
        bench_check(blocks[i], CHILD_BYTES, (uint64_t)i);
        free(blocks[i]);
    }
    if (is_json) {
        static const char report[] = "{\"benchmark\": \"startup\", \"rounds\": []}\n";
        return write(STDOUT_FILENO, report, sizeof(report) - 1) > 0 ? 0 : BENCH_EXIT_WRONG;
    }
    return PASS_STATUS;
}

static void start_one(void) {
    extern char **environ;
    pid_t child;
    int status = 0;
    int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, child_arguments, environ);
    if (error != 0) {
        bench_fail("posix_spawn: %s", strerror(error));
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != PASS_STATUS) {
        bench_fail("a child ended with status 0x%x", (unsigned)status);
    }
}

int main(int argc, char **argv) {
    bench_name = "startup";
    if (argc > 1 && strcmp(argv[1], "--child") == 0) { /* before anything else touches a page */
        return be_child(argc > 2);
    }
    bench_parse("startup", "Starts processes that hardly allocate.", options, argc, argv);
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < processes; j++) {
            start_one();
        }
        bench_round_end(processes);
    }
    return bench_report();
}
