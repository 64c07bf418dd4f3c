/* SPDX-License-Identifier: MIT */
/*
 * Counts the memory system calls of a piece of work, exactly: the work runs in a fork child under
 * ptrace, and its own marker calls cut the count into rounds. One tracer, one single-threaded
 * child. Skips where ptrace is not allowed.
 */
#ifndef PS_TESTS_SYSCALL_COUNT_H
#define PS_TESTS_SYSCALL_COUNT_H

#include "claim.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SYSCALL_COUNT_ROUNDS_MAX 64
/* A call that occurs nowhere else: the process group of this pid. */
#define SYSCALL_COUNT_MARKER 0x7fee0001

struct syscall_count {
    unsigned rounds;                           /* that the work has marked */
    unsigned memory[SYSCALL_COUNT_ROUNDS_MAX]; /* mmap, munmap, mremap, mprotect, madvise, brk */
    unsigned last[SYSCALL_COUNT_ROUNDS_MAX];   /* number of the last of them, for reports */
};

/* Called by the work at the end of each round. */
__attribute__((unused)) static void syscall_count_mark(void) {
    syscall(SYS_getpgid, SYSCALL_COUNT_MARKER);
}

static int syscall_count_is_memory(uint64_t number) {
    return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
           number == SYS_mprotect || number == SYS_madvise || number == SYS_brk;
}

static void syscall_count_enter(struct syscall_count *count,
                                const struct __ptrace_syscall_info *info) {
    if (info->op != PTRACE_SYSCALL_INFO_ENTRY) {
        return;
    }
    if (info->entry.nr == SYS_getpgid && info->entry.args[0] == SYSCALL_COUNT_MARKER) {
        CLAIM(++count->rounds < SYSCALL_COUNT_ROUNDS_MAX);
    } else if (syscall_count_is_memory(info->entry.nr)) {
        count->memory[count->rounds]++;
        count->last[count->rounds] = (unsigned)info->entry.nr;
    }
}

/* Runs `work` in a child to its end, which must be exit status 0. */
__attribute__((unused)) static void syscall_count_run(struct syscall_count *count,
                                                      void (*work)(void)) {
    memset(count, 0, sizeof *count);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(CLAIM_SKIP);
        }
        raise(SIGSTOP);
        work();
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
        claim_skip("ptrace is not allowed here");
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    CLAIM(ptrace(PTRACE_SETOPTIONS, child, NULL, options) == 0);
    int pending = 0;
    for (;;) {
        CLAIM(ptrace(PTRACE_SYSCALL, child, NULL, (long)pending) == 0);
        CLAIM(waitpid(child, &status, 0) == child);
        if (!WIFSTOPPED(status)) {
            break;
        }
        pending = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
        if (pending == 0) {
            struct __ptrace_syscall_info info;
            CLAIM(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
            syscall_count_enter(count, &info);
        }
    }
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Claims that from round `first` on no memory call was made; prints all counts when one was. */
__attribute__((unused)) static void syscall_count_expect_none(const struct syscall_count *count,
                                                              unsigned first) {
    unsigned sum = 0;
    CLAIM(count->rounds > first);
    for (unsigned round = first; round < count->rounds; round++) {
        sum += count->memory[round];
    }
    for (unsigned round = 0; sum > 0 && round < count->rounds; round++) {
        dprintf(2, "round %u: %u memory calls (last: number %u)\n", round, count->memory[round],
                count->last[round]);
    }
    CLAIM(sum == 0);
}

/* Runs the work, which may make no memory call from round `first` on; main's result. */
__attribute__((unused)) static int syscall_count_none_from(unsigned first, void (*work)(void)) {
    static struct syscall_count count;
    syscall_count_run(&count, work);
    syscall_count_expect_none(&count, first);
    return 0;
}

#endif
