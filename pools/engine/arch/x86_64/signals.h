/* SPDX-License-Identifier: MIT */
/*
 * A signal's action, and the code to which its handler returns, on x86-64.
 */

struct ps_signal_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t blocked;
};

#define PS_SIGNAL_HAS_RESTORER 0x04000000 /* SA_RESTORER; libc's headers have no name for it */

/*
 * The kernel has no such code on this processor. Unwinders and debuggers recognise these bytes,
 * unless a function's table covers the byte before them; hence the nop, in a section of its own.
 */
static inline void ps_signal_set_restorer(struct ps_signal_action *action) {
    if ((action->flags & PS_SIGNAL_HAS_RESTORER) != 0) {
        return; /* it is one that libc has installed */
    }
    __asm__("leaq 1f(%%rip), %0\n"
            ".pushsection .text.ps_signal_return, \"ax\"\n"
            "nop\n"
            "1: movq $15, %%rax\n"
            "syscall\n"
            ".popsection\n"
            : "=r"(action->restorer));
    action->flags |= PS_SIGNAL_HAS_RESTORER;
}
