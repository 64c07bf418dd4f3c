// expect: exit 0
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * While threads allocate, the parent starts programs by vfork + exec, posix_spawn and popen, and
 * its own heap remains consistent.
 */
#include "fork_load.h"
#include "heap_use.h"

#include <spawn.h>

extern char **environ;

static void wait_for(pid_t child) {
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, 0) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void run_by_vfork(void) {
    char *const arguments[] = {"true", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execv("/bin/true", arguments);
        _exit(9);
    }
    wait_for(child);
}

static void run_by_spawn(void) {
    char *const arguments[] = {"sh", "-c", "exit 0", NULL};
    pid_t child = -1;
    CLAIM(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    wait_for(child);
}

static void run_by_popen(void) {
    char line[100] = "";
    FILE *stream = popen("echo works", "r");
    CLAIM(stream != NULL);
    CLAIM(fgets(line, sizeof line, stream) != NULL && strcmp(line, "works\n") == 0);
    CLAIM(pclose(stream) == 0);
}

int main(void) {
    fork_load_start();
    for (int round = 0; round < 60; round++) {
        run_by_vfork();
        run_by_spawn();
        run_by_popen();
        CLAIM(heap_use());
    }
    fork_load_stop();
    return 0;
}
