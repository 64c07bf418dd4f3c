// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * Under every limit on addresses (RLIMIT_AS) and on writable memory (RLIMIT_DATA), from less than
 * ld.so needs to plenty, set before the program starts: it runs, or ld.so says that it cannot;
 * malloc gives what there is, then NULL with ENOMEM; and freed memory can be allocated again.
 */
#include "claim.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KIB ((size_t)1 << 10)
#define BLOCKS 20000
#define STATUS_UNSERVED 3 /* ld.so went on without the shim */
#define STATUS_LD_SO 127

static unsigned char *blocks[BLOCKS];

static size_t size_of(size_t i) {
    return i % 50 == 49 ? 300 * KIB + i : i % 10 == 9 ? 40 * KIB : 16 + i * 37 % 2000;
}

/* Takes blocks from `first` on, every `step`th, until memory is exhausted; returns how many. */
static size_t take(size_t first, size_t step) {
    size_t count = 0;
    for (size_t i = first; i < BLOCKS; i += step) {
        errno = 0;
        blocks[i] = i % 3 == 0 ? calloc(1, size_of(i)) : malloc(size_of(i));
        if (blocks[i] == NULL) {
            CLAIM(errno == ENOMEM);
            break;
        }
        count++;
        claim_fill(blocks[i], 16, (unsigned)i);
        blocks[i][size_of(i) - 1] = (unsigned char)i;
    }
    return count;
}

static void give(size_t first, size_t step) {
    for (size_t i = first; i < BLOCKS; i += step) {
        if (blocks[i] != NULL) {
            CLAIM(claim_is_filled(blocks[i], 15, (unsigned)i));
            CLAIM(blocks[i][size_of(i) - 1] == (unsigned char)i);
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static int run_limited(void) {
    if (!claim_is_shimmed()) {
        return STATUS_UNSERVED;
    }
    size_t all = take(0, 1);
    give(0, 2);
    size_t half = take(0, 2);
    CLAIM(half + 100 >= all / 2 || half * 10 >= all * 4); /* nearly all of the freed */
    give(0, 1);
    size_t again = take(0, 1);
    CLAIM(again + 50 >= all || again * 10 >= all * 9); /* 50: to the next of 300 KiB */
    give(0, 1);
    return 0;
}

/* What the child printed: complaints of ld.so, but no line of the shim's. */
static void check_output(int output, int is_shown) {
    char text[4096] = "";
    (void)pread(output, text, sizeof text - 1, 0);
    if (is_shown) {
        dprintf(2, "%s", text);
    }
    CLAIM(strstr(text, "poolshim:") == NULL);
    close(output);
}

/* The exit status of this program started under the limit. */
static int status_under(int resource, size_t bytes, char **arguments) {
    int output = memfd_create("output", MFD_CLOEXEC);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        struct rlimit limit = {bytes, bytes};
        char *again[] = {arguments[0], "limited", NULL};
        (void)dup2(output, 2);
        if (setrlimit(resource, &limit) == 0) {
            execv("/proc/self/exe", again);
        }
        _exit(2);
    }
    int status;
    CLAIM(waitpid(child, &status, 0) == child);
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    int is_expected = result == 0 || result == STATUS_UNSERVED || result == STATUS_LD_SO;
    if (!is_expected) {
        dprintf(2, "resource %d, %zu KiB: status %d\n", resource, bytes / KIB, result);
    }
    check_output(output, !is_expected);
    CLAIM(is_expected);
    return result;
}

static void check(int resource, size_t least_kib, char **arguments) {
    int served_count = 0;
    for (size_t kib = least_kib; kib <= 1024 * KIB; kib += kib < 48 * KIB ? KIB : kib / 3) {
        int status = status_under(resource, kib * KIB, arguments);
        CLAIM(status == 0 || served_count == 0); /* more memory, and less is possible? */
        served_count += status == 0;
    }
    CLAIM(served_count >= 30);
}

int main(int count, char **arguments) {
    if (count > 1) {
        return run_limited();
    }
    if (!claim_is_shimmed()) {
        claim_skip("without the shim this says nothing");
    }
    check(RLIMIT_AS, 4 * KIB, arguments);
    check(RLIMIT_DATA, 512, arguments);
    return 0;
}
