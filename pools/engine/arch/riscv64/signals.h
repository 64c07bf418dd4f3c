/* SPDX-License-Identifier: MIT */
/*
 * A signal's action on RISC-V; the vDSO has the code to which its handler returns.
 */

struct ps_signal_action {
    void (*handler)(int);
    unsigned long flags;
    uint64_t blocked;
};

static inline void ps_signal_set_restorer(struct ps_signal_action *action) { (void)action; }
