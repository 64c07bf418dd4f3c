// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A program started without descriptors 0, 1 and 2 works, and opens its first file as 0. */
#include "claim.h"
#include "heap_use.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int started_without_streams(void) {
    int first = open("/dev/null", O_RDWR);
    int second = open("/dev/null", O_RDWR);
    int third = open("/dev/null", O_RDWR);
    if (first != 0 || second != 1 || third != 2) {
        return 10;
    }
    return heap_use() ? 0 : 11;
}

int main(int count, char **arguments) {
    if (count > 1) {
        return started_without_streams();
    }
    posix_spawn_file_actions_t actions;
    CLAIM(posix_spawn_file_actions_init(&actions) == 0);
    for (int file = 0; file < 3; file++) {
        CLAIM(posix_spawn_file_actions_addclose(&actions, file) == 0);
    }
    char *again[] = {arguments[0], "started", NULL};
    pid_t child;
    CLAIM(posix_spawn(&child, "/proc/self/exe", &actions, NULL, again, environ) == 0);
    CLAIM(posix_spawn_file_actions_destroy(&actions) == 0);
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}
