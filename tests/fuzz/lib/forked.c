/* SPDX-License-Identifier: MIT */
/* See forked.h. */
#include "tests/fuzz/lib/forked.h"

#include "tests/fuzz/lib/fuzz.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang's counters of edges, one byte each; not there in other builds. */
extern uint8_t counters_start[] __asm__("__start___sancov_cntrs") __attribute__((weak));
extern uint8_t counters_end[] __asm__("__stop___sancov_cntrs") __attribute__((weak));

static uint8_t *shared; /* as many, seen by parent and child */

static size_t counters_bytes(void) {
    return counters_start == NULL ? 0 : (size_t)(counters_end - counters_start);
}

static void share_counters(void) {
    if (shared == NULL && counters_bytes() > 0) {
        shared =
            mmap(NULL, counters_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        FUZZ_CHECK(shared != MAP_FAILED);
    }
}

void forked_keep_coverage(void) {
    for (size_t i = 0; shared != NULL && i < counters_bytes(); i++) {
        shared[i] |= counters_start[i];
    }
}

static void live_as_child(void (*run)(const uint8_t *bytes, size_t count), const uint8_t *bytes,
                          size_t count) {
    signal(SIGALRM, SIG_DFL); /* libFuzzer's handler would go on */
    alarm(FORKED_SECONDS_MAX);
    run(bytes, count);
    forked_keep_coverage();
    _exit(0);
}

void forked_run(void (*run)(const uint8_t *bytes, size_t count), const uint8_t *bytes,
                size_t count) {
    share_counters();
    if (shared != NULL) {
        memset(shared, 0, counters_bytes());
    }
    fflush(NULL);
    pid_t child = fork();
    FUZZ_CHECK(child >= 0);
    if (child == 0) {
        live_as_child(run, bytes, count);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
        FUZZ_CHECK(errno == EINTR);
    }
    if (status != 0) {
        fprintf(stderr, "the child ended with wait status 0x%x%s\n", (unsigned)status,
                WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
        abort();
    }
    if (shared != NULL) {
        memcpy(counters_start, shared, counters_bytes());
    }
}
