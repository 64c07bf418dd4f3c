/* SPDX-License-Identifier: MIT */
/*
 * What can be seen of another process from outside, through /proc: the files it has mapped, its
 * peak RSS, its last RSS and private dirty memory, its RSS over time, or that of all its
 * descendants together. Included by launcher.c only. Reads files; writes all results to the
 * caller's struct. A process that has ended leaves the struct unchanged. One thread, no locks.
 */
#ifndef PS_NATIVE_OBSERVE_H
#define PS_NATIVE_OBSERVE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { OBSERVE_MAPPED_LIMIT = 512, OBSERVE_SAMPLE_LIMIT = 4096, OBSERVE_FAMILY_LIMIT = 256 };

struct sample {
    uint64_t time_ns; /* since the start */
    uint64_t rss_kib;
};

struct observation {
    uint64_t start_ns;
    uint64_t peak_rss_kib;              /* VmHWM; 0: unknown */
    uint64_t last_rss_kib;              /* smaps_rollup; 0: unknown */
    uint64_t last_dirty_kib;            /* private dirty, likewise; a clean process has none */
    bool has_maps;                      /* the maps were read at least once */
    bool is_expected_mapped;            /* and the expected library was in them */
    char *mapped[OBSERVE_MAPPED_LIMIT]; /* files mapped executable, each once */
    size_t mapped_count;
    struct sample samples[OBSERVE_SAMPLE_LIMIT];
    size_t sample_count;
    uint64_t sample_interval_ns;
};

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline FILE *observe_open(pid_t pid, const char *name) {
    char path[320]; /* the longest name of observe_children, and more */
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

static inline void observe_mapping(struct observation *seen, const char *path,
                                   const char *expected) {
    if (expected != NULL && strcmp(path, expected) == 0) {
        seen->is_expected_mapped = true;
    }
    for (size_t i = 0; i < seen->mapped_count; i++) {
        if (strcmp(seen->mapped[i], path) == 0) {
            return;
        }
    }
    if (seen->mapped_count < OBSERVE_MAPPED_LIMIT) {
        seen->mapped[seen->mapped_count++] = strdup(path);
    }
}

/* Lines: "start-end perms offset dev inode    /path". Only files mapped executable count. */
static inline void observe_maps(struct observation *seen, pid_t pid, const char *expected) {
    FILE *maps = observe_open(pid, "maps");
    if (maps == NULL) {
        return;
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, maps) > 0) {
        char permissions[5] = "";
        const char *path = strchr(line, '/');
        seen->has_maps = true;
        if (path == NULL || sscanf(line, "%*s %4s", permissions) != 1 || permissions[2] != 'x') {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        observe_mapping(seen, path, expected);
    }
    free(line);
    fclose(maps);
}

/* The KiB after `key`, at the start of a line of /proc/<pid>/<name>; 0 where unknown. */
static inline uint64_t observe_kib(pid_t pid, const char *name, const char *key) {
    FILE *file = observe_open(pid, name);
    if (file == NULL) {
        return 0;
    }
    char line[256];
    uint64_t kib = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            kib = strtoull(line + strlen(key), NULL, 10);
        }
    }
    fclose(file);
    return kib;
}

/* The process's peak, and what it has at this moment. */
static inline void observe_memory(struct observation *seen, pid_t pid) {
    uint64_t peak_kib = observe_kib(pid, "status", "VmHWM:");
    if (peak_kib != 0) {
        seen->last_rss_kib = observe_kib(pid, "smaps_rollup", "Rss:");
        /* The kernel adds to its peak in batches. */
        seen->peak_rss_kib = peak_kib < seen->last_rss_kib ? seen->last_rss_kib : peak_kib;
        seen->last_dirty_kib = observe_kib(pid, "smaps_rollup", "Private_Dirty:");
    }
}

/* When the table is full, every second sample goes and the interval doubles: bounded for any run.
 */
static inline void observe_halve_samples(struct observation *seen) {
    for (size_t i = 0; i < OBSERVE_SAMPLE_LIMIT / 2; i++) {
        seen->samples[i] = seen->samples[2 * i];
    }
    seen->sample_count = OBSERVE_SAMPLE_LIMIT / 2;
    seen->sample_interval_ns *= 2;
}

/* RSS of one process; 0: it has ended. */
static inline uint64_t observe_rss_kib(pid_t pid) {
    FILE *statm = observe_open(pid, "statm");
    unsigned long long pages = 0;
    if (statm != NULL && fscanf(statm, "%*u %llu", &pages) != 1) {
        pages = 0;
    }
    if (statm != NULL) {
        fclose(statm);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Adds the children of all threads of the process; returns how many processes there are then. */
static inline size_t observe_children(pid_t pid, pid_t family[OBSERVE_FAMILY_LIMIT], size_t count) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char name[300];
        snprintf(name, sizeof(name), "task/%s/children", task->d_name);
        FILE *children = task->d_name[0] == '.' ? NULL : observe_open(pid, name);
        int child;
        while (children != NULL && count < OBSERVE_FAMILY_LIMIT &&
               fscanf(children, "%d", &child) == 1) {
            family[count++] = (pid_t)child;
        }
        if (children != NULL) {
            fclose(children);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

/*
 * Memory of the process and of all that descends from it. Of one process: RSS. Of several: the sum
 * of their proportional set sizes, in which a page that they share after a fork counts once.
 */
static inline uint64_t observe_family_kib(pid_t pid) {
    pid_t family[OBSERVE_FAMILY_LIMIT] = {pid};
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        count = observe_children(family[i], family, count);
    }
    uint64_t kib = 0;
    for (size_t i = 0; i < count && count > 1; i++) {
        kib += observe_kib(family[i], "smaps_rollup", "Pss:");
    }
    return count == 1 ? observe_rss_kib(pid) : kib;
}

static inline void observe_sample(struct observation *seen, pid_t pid, bool is_family) {
    uint64_t time_ns = now_ns() - seen->start_ns;
    uint64_t kib = is_family ? observe_family_kib(pid) : observe_rss_kib(pid);
    if (kib == 0) {
        return;
    }
    if (seen->sample_count == OBSERVE_SAMPLE_LIMIT) {
        observe_halve_samples(seen);
    }
    seen->samples[seen->sample_count++] = (struct sample){.time_ns = time_ns, .rss_kib = kib};
}

#endif
