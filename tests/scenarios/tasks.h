/* SPDX-License-Identifier: MIT */
/*
 * The threads of the own process as the system lists them, the background thread of the shim among
 * them. Reads /proc/self/task; calls libc's directory functions, which allocate. No locks.
 */
#ifndef PS_TESTS_TASKS_H
#define PS_TESTS_TASKS_H

#include "claim.h"

#include <dirent.h>
#include <pthread.h>
#include <time.h>

#define TASKS_PAUSE_MS 5

struct tasks {
    int count;
    int background; /* number of the background thread; 0: there is none */
};

/* A line of a file of a task; "" where the task has ended. */
__attribute__((unused)) static void tasks_read(const char *task, const char *file, char *text,
                                               size_t capacity) {
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, capacity - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

__attribute__((unused)) static struct tasks tasks_list(void) {
    struct tasks tasks = {0, 0};
    DIR *folder = opendir("/proc/self/task");
    CLAIM(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char name[64];
        if (entry->d_name[0] == '.') {
            continue;
        }
        tasks_read(entry->d_name, "comm", name, sizeof name);
        tasks.count += name[0] != '\0';
        if (strcmp(name, "poolshim\n") == 0) {
            CLAIM(tasks.background == 0);
            tasks.background = atoi(entry->d_name);
        }
    }
    closedir(folder);
    return tasks;
}

__attribute__((unused)) static void tasks_pause(void) {
    const struct timespec pause = {0, TASKS_PAUSE_MS * 1000000};
    nanosleep(&pause, NULL);
}

/* A thread that allocates blocks here until its end. */
__attribute__((unused)) static pthread_barrier_t tasks_may_end;

__attribute__((unused)) static void *tasks_wait(void *unused) {
    free(claim_hide(malloc(100)));
    pthread_barrier_wait(&tasks_may_end);
    return unused;
}

/* Polls until so many threads exist, the background thread among them or not; a scenario in which
 * they never do ends by its time-out. */
__attribute__((unused)) static void tasks_await(int count, int has_background) {
    for (struct tasks tasks = {0, 0};
         tasks.count != count || (tasks.background != 0) != has_background;) {
        tasks_pause();
        tasks = tasks_list();
    }
}

#endif
