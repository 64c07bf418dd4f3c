/* SPDX-License-Identifier: MIT */
/*
 * Start-up: what an allocator adds to a process that hardly allocates. Shells and build systems
 * start thousands of them.
 *
 * Timed, wall clock: `processes` times a new process from start to end, one after the other: the
 * program `trivial` beside this one. It inherits LD_PRELOAD, and so has the allocator under test.
 * An operation is one process. One untimed process comes first.
 */
#include "lib/workload.h"

#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>

static uint64_t processes = 100;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"processes", &processes, 1, 1000000, "processes per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

static char child_path[PATH_MAX];

static void find_child(void) {
    static const char name[] = "trivial";
    ssize_t length = readlink("/proc/self/exe", child_path, sizeof(child_path) - sizeof(name));
    char *slash = length < 0 ? NULL : strrchr(child_path, '/');
    if (slash == NULL) {
        bench_fail("/proc/self/exe cannot be read");
    }
    memcpy(slash + 1, name, sizeof(name));
}

static void run_child(void) {
    extern char **environ;
    char *arguments[] = {child_path, NULL};
    pid_t child;
    int status = 0;
    int error = posix_spawn(&child, child_path, NULL, NULL, arguments, environ);
    if (error != 0) {
        bench_fail("%s: %s", child_path, strerror(error));
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        bench_fail("%s ended with status 0x%x", child_path, (unsigned)status);
    }
}

int main(int argc, char **argv) {
    bench_parse("startup", "Starts processes that hardly allocate.", options, argc, argv);
    find_child();
    run_child();
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < processes; j++) {
            run_child();
        }
        bench_round_end(processes);
    }
    return bench_report();
}
