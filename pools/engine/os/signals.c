/* SPDX-License-Identifier: MIT */
/*
 * See signals.h.
 */
#include "pools/engine/os/signals.h"

#include "pools/engine/os/syscall.h"

#include <signal.h>
#include <time.h>

#define SET_BYTES sizeof(uint64_t)
#define EXIT_ABORTED 127

static uint64_t change_mask(int how, uint64_t set) {
    uint64_t before = 0;
    (void)ps_syscall6(SYS_rt_sigprocmask, how, (long)&set, (long)&before, SET_BYTES, 0, 0);
    return before;
}

uint64_t ps_signals_block(uint64_t set) { return change_mask(SIG_BLOCK, set); }

void ps_signals_unblock(uint64_t set) { (void)change_mask(SIG_UNBLOCK, set); }

void ps_signals_set_blocked(uint64_t set) { (void)change_mask(SIG_SETMASK, set); }

uint64_t ps_signals_pending(void) {
    uint64_t set = 0;
    (void)ps_syscall3(SYS_rt_sigpending, (long)&set, SET_BYTES, 0);
    return set;
}

void ps_signals_consume(int number) {
    const struct timespec no_wait = {0};
    uint64_t set = PS_SIGNAL_BIT(number);
    (void)ps_syscall6(SYS_rt_sigtimedwait, (long)&set, 0, (long)&no_wait, SET_BYTES, 0, 0);
}

void ps_signals_raise(int number) {
    long process = ps_syscall3(SYS_getpid, 0, 0, 0);
    (void)ps_syscall3(SYS_tgkill, process, ps_syscall3(SYS_gettid, 0, 0, 0), number);
}

PS_COLD PS_NORETURN void ps_signals_abort(void) {
    ps_signals_unblock(PS_SIGNAL_BIT(SIGABRT));
    ps_signals_raise(SIGABRT);
    (void)ps_signals_set_action(SIGABRT, (struct ps_signal_action){.handler = SIG_DFL});
    ps_signals_unblock(PS_SIGNAL_BIT(SIGABRT));
    ps_signals_raise(SIGABRT);
    for (;;) { /* ends: the process does */
        (void)ps_syscall3(SYS_exit_group, EXIT_ABORTED, 0, 0);
    }
}

bool ps_signals_action(int number, struct ps_signal_action *out) {
    return !ps_syscall_failed(ps_syscall6(SYS_rt_sigaction, number, 0, (long)out, SET_BYTES, 0, 0));
}

bool ps_signals_set_action(int number, struct ps_signal_action action) {
    ps_signal_set_restorer(&action);
    return !ps_syscall_failed(
        ps_syscall6(SYS_rt_sigaction, number, (long)&action, 0, SET_BYTES, 0, 0));
}
