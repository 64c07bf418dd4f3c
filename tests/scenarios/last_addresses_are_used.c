// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * With 2 MiB or 1 MiB left of an address-space limit (RLIMIT_AS) or of one on writable memory
 * (RLIMIT_DATA), most of that can still be allocated, in blocks of any size, by a process whose
 * heap has hardly begun; and when the limit is raised the heap grows again.
 */
#include "claim.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define KIB ((size_t)1 << 10)
#define BLOCKS 100000

static const size_t sizes[] = {24, 300, 1000, 5000, 40000, 100 * KIB, 400 * KIB};
static char *blocks[BLOCKS];

/* A field of /proc/self/status in bytes. */
static size_t field_bytes(const char *name) {
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    CLAIM(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CLAIM(length > 0);
    close(file);
    text[length] = '\0';
    const char *line = strstr(text, name);
    CLAIM(line != NULL);
    return strtoul(line + strlen(name), NULL, 10) * KIB;
}

static size_t take(size_t size, size_t limit) {
    size_t count = 0;
    for (; count < limit; count++) {
        errno = 0;
        blocks[count] = malloc(size);
        if (blocks[count] == NULL) {
            CLAIM(errno == ENOMEM);
            break;
        }
        claim_fill(blocks[count], size < 64 ? size : 64, (unsigned)count);
        blocks[count][size - 1] = 1;
    }
    return count;
}

static void check(int resource, size_t left, size_t least, size_t size) {
    struct rlimit limit;
    CLAIM(getrlimit(resource, &limit) == 0);
    rlim_t before = limit.rlim_cur;
    size_t used = field_bytes(resource == RLIMIT_AS ? "VmSize:" : "VmData:");
    limit.rlim_cur = used + left;
    CLAIM(setrlimit(resource, &limit) == 0);
    size_t count = take(size, BLOCKS);
    limit.rlim_cur = before;
    CLAIM(setrlimit(resource, &limit) == 0);
    if (count * size < least) {
        dprintf(2, "resource %d, %zu KiB left, blocks of %zu: %zu KiB\n", resource, left / KIB,
                size, count * size / KIB);
    }
    CLAIM(count * size >= least);
    for (size_t i = 0; i < count; i++) {
        CLAIM(claim_is_filled(blocks[i], 16, (unsigned)i));
        free(blocks[i]);
    }
    CLAIM(take(1000, BLOCKS) == BLOCKS);
}

static void check_in_child(int resource, size_t left, size_t least, size_t size) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        check(resource, left, least, size);
        _exit(0);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    static const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            check_in_child(resources[i], 2048 * KIB, 1280 * KIB, sizes[j]);
            check_in_child(resources[i], 1024 * KIB, 512 * KIB, sizes[j]);
        }
    }
    return 0;
}
