/* SPDX-License-Identifier: MIT */
/*
 * System calls that fail, as in a sandbox: a filter, which is in force for the rest of the process.
 */
#ifndef PS_TESTS_POOLS_REFUSED_CALL_H
#define PS_TESTS_POOLS_REFUSED_CALL_H

#include "tests/unit/unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* From now on this system call of the process fails so. */
static void refuse_call(unsigned number, int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        UNIT_SKIP("no filter of system calls can be set here");
    }
}

#endif
