/* SPDX-License-Identifier: MIT */
/*
 * See fatal.h. Called from any layer after a misuse or a failed check, under any lock: no function
 * of libc is called, which a program may have interposed. ps_fault_watch writes the variables below
 * before the handler can run.
 */
#include "pools/engine/os/fatal.h"

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/digits.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include PS_ARCH_PART(fatal.h)

/* ---- messages ---- */

#define LINE_BYTES 160
#define TAIL_BYTES 80 /* reserved for the text after the words: an address, two numbers */

struct line {
    char text[LINE_BYTES];
    size_t length;
};

/* Appends words up to `limit`, which leaves room for the numbers after them. */
static void add_words(struct line *line, const char *words, size_t limit) {
    for (; *words != '\0' && line->length < limit; words++) {
        line->text[line->length++] = *words;
    }
}

static void add_number(struct line *line, uintptr_t value, unsigned base) {
    char digits[PS_DIGITS_BYTES];
    add_words(line, ps_digits(digits, value, base), LINE_BYTES);
}

static void add_what(struct line *line, const char *what, const void *address) {
    line->length = 0;
    add_words(line, "poolshim: ", LINE_BYTES - TAIL_BYTES);
    add_words(line, what, LINE_BYTES - TAIL_BYTES);
    add_words(line, " 0x", LINE_BYTES);
    add_number(line, (uintptr_t)address, 16);
}

static void print(struct line *line) {
    add_words(line, "\n", LINE_BYTES);
    ps_os_write(2, line->text, line->length);
}

void ps_report_address(const char *what, const void *address) {
    struct line line;
    add_what(&line, what, address);
    print(&line);
}

PS_COLD PS_NORETURN void ps_fatal_address(const char *what, const void *address) {
    ps_report_address(what, address);
    ps_signals_abort();
}

PS_COLD PS_NORETURN void ps_fatal_block(const char *what, const void *block, size_t class_bytes) {
    struct line line;
    add_what(&line, what, block);
    add_words(&line, " (size class ", LINE_BYTES);
    add_number(&line, class_bytes, 10);
    add_words(&line, ", thread ", LINE_BYTES);
    add_number(&line, ps_os_thread_number(), 10);
    add_words(&line, ")", LINE_BYTES);
    print(&line);
    ps_signals_abort();
}

PS_COLD PS_NORETURN void ps_check_failed(const char *text) {
    ps_os_write(2, text, strlen(text));
    ps_signals_abort();
}

/* ---- faults ---- */

/* As the kernel numbers them; headers of older systems lack them. */
#define WITH_TAG_BITS 0x800 /* flag of an action: addresses have their tags */
#define CODE_TAG_MISMATCH 9 /* of SIGSEGV */

static const int signals[] = {SIGSEGV, SIGBUS};

#define SIGNAL_COUNT (sizeof signals / sizeof signals[0])

typedef void fault_handler(int number, siginfo_t *info, void *context);

static ps_fault_claim *claimant;
static PS_SPARSE struct ps_signal_action previous[SIGNAL_COUNT];

/* Performs the action that was installed before ours, as the kernel would. */
static void pass_on(int number, struct ps_signal_action *earlier, siginfo_t *info, void *context) {
    bool is_fault = info->si_code > 0; /* otherwise it was sent by kill, and no instruction faults
                                        * again */
    if ((earlier->flags & SA_SIGINFO) == 0 &&
        (earlier->handler == SIG_DFL || earlier->handler == SIG_IGN)) {
        if (earlier->handler == SIG_IGN && !is_fault) {
            return;
        }
        earlier->handler = SIG_DFL; /* the kernel ignores no fault */
        (void)ps_signals_set_action(number, *earlier);
        if (!is_fault) {
            ps_signals_raise(number); /* blocked here; delivered when the handler has returned */
        }
        return;
    }
    struct ps_signal_action action = *earlier;
    if ((action.flags & SA_RESETHAND) != 0) {
        earlier->flags = 0;
        earlier->handler = SIG_DFL;
    }
    /* The return from the handler restores the mask that was in force. */
    (void)ps_signals_block(action.blocked);
    if ((action.flags & SA_NODEFER) != 0) {
        ps_signals_unblock(PS_SIGNAL_BIT(number));
    }
    if ((action.flags & SA_SIGINFO) != 0) {
        ((fault_handler *)(uintptr_t)action.handler)(number, info, context);
    } else {
        action.handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context) {
    struct ps_signal_action *earlier = &previous[number == signals[0] ? 0 : 1];
    bool is_claimed = false;
    if (info->si_code > 0) {
        struct ps_fault fault = {.address = info->si_addr,
                                 .is_of_tags = ps_mte_is_on() && number == SIGSEGV &&
                                               info->si_code == CODE_TAG_MISMATCH};
        ps_fault_read(context, &fault);
        is_claimed = claimant(&fault);
    }
    if (is_claimed) {
        (void)ps_signals_set_action(number, *earlier);
    } else {
        pass_on(number, earlier, info, context);
    }
}

PS_COLD void ps_fault_watch(ps_fault_claim *claim) {
    const struct ps_signal_action action = {.handler = (void (*)(int))(uintptr_t)on_fault,
                                            .flags = SA_SIGINFO | SA_ONSTACK |
                                                     (ps_mte_is_on() ? WITH_TAG_BITS : 0)};
    claimant = claim;
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        /* Save the present action first, so that no fault in between misses it. */
        if (ps_signals_action(signals[i], &previous[i])) {
            (void)ps_signals_set_action(signals[i], action);
        }
    }
}
