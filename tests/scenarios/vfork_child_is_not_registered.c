// expect: exit 0
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences cannot run in a child that shares its parent's memory, of vfork, of clone
 * or of another such child: the area tells no processor there, libc tells the true one, and the
 * parent's area is as before when the child has ended, by exit or by exec, or could not be made.
 */
#include "claim.h"
#include "pools/engine/os/rseq.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#pragma weak __rseq_offset
#pragma weak __rseq_size
#endif

#define STACK_BYTES 65536

static const volatile uint32_t *area_cpu; /* of the main thread, after the second number */
static int own_cpu;
static int other_cpu; /* the same, if there is no other */

static void find_area(void) {
#if __has_include(<sys/rseq.h>)
    if (PS_HAS_RSEQ && &__rseq_size != NULL && __rseq_size != 0) {
        area_cpu = &((struct rseq *)(ps_thread_pointer() + (uintptr_t)__rseq_offset))->cpu_id;
    }
#endif
    if (area_cpu == NULL) {
        claim_skip("threads have no restartable sequences");
    }
}

static void run_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CLAIM(sched_setaffinity(0, sizeof one, &one) == 0);
}

static int parent_has_its_processor(void) {
    return *area_cpu == (uint32_t)own_cpu && area_cpu[-1] == (uint32_t)own_cpu &&
           sched_getcpu() == own_cpu;
}

__attribute__((noinline)) static int is_not_registered(void *unused) {
    (void)unused;
    run_on(other_cpu);
    int is_true = *area_cpu == (uint32_t)-1 && sched_getcpu() == other_cpu;
    free(claim_hide(malloc(100)));
    return is_true && *area_cpu == (uint32_t)-1 ? 0 : 1;
}

static void wait_for(pid_t child) {
    int status = 0;
    CLAIM(child > 0 && waitpid(child, &status, __WALL) == child);
    CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

__attribute__((noinline)) static void run_child(void) {
    pid_t child = vfork();
    if (child == 0) {
        _exit(is_not_registered(NULL));
    }
    wait_for(child);
}

__attribute__((noinline)) static void run_grandchild(void) {
    pid_t child = vfork();
    if (child == 0) {
        run_child();
        _exit(is_not_registered(NULL));
    }
    wait_for(child);
}

__attribute__((noinline)) static void run_program(void) {
    char *const arguments[] = {"true", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execv("/nonexistent", arguments);
        execv("/bin/true", arguments);
        _exit(9);
    }
    wait_for(child);
}

static void run_clone(int flags) {
    static char stack[STACK_BYTES] __attribute__((aligned(16)));
    wait_for(clone(is_not_registered, stack + STACK_BYTES, flags | SIGCHLD, NULL));
}

static void fail(void) {
    struct rlimit none = {0, 0};
    if (getuid() == 0 && setuid(65534) != 0) {
        return; /* root has no limit */
    }
    CLAIM(setrlimit(RLIMIT_NPROC, &none) == 0);
    errno = 0;
    pid_t child = vfork();
    if (child == 0) {
        _exit(0);
    }
    CLAIM(child == -1 && errno == EAGAIN);
}

int main(void) {
    cpu_set_t all;
    find_area();
    CLAIM(sched_getaffinity(0, sizeof all, &all) == 0);
    other_cpu = own_cpu = sched_getcpu();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        other_cpu = CPU_ISSET(cpu, &all) && cpu != own_cpu ? cpu : other_cpu;
    }
    run_on(own_cpu);
    void (*const ways[])(void) = {run_child, run_grandchild, run_program};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        ways[i]();
        CLAIM(parent_has_its_processor());
    }
    run_clone(CLONE_VM | CLONE_VFORK);
    CLAIM(parent_has_its_processor());
    CLAIM(clone(is_not_registered, NULL, CLONE_VM | CLONE_VFORK, NULL) == -1 && errno == EINVAL);
    CLAIM(parent_has_its_processor());
    fail();
    CLAIM(parent_has_its_processor());
    return 0;
}
