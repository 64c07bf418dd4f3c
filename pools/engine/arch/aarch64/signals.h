/* SPDX-License-Identifier: MIT */
/*
 * A signal's action on 64-bit ARM; the vDSO has the code to which its handler returns.
 */

struct ps_signal_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void); /* only 32-bit programs set it */
    uint64_t blocked;
};

static inline void ps_signal_set_restorer(struct ps_signal_action *action) { (void)action; }
