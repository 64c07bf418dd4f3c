/* SPDX-License-Identifier: MIT */
/* The fault handler: the claim and its argument, and what the earlier action gets. */
#include "pools/engine/os/fatal.h"

#include "pools/engine/os/os.h"
#include "tests/unit/fresh.h"

#include <setjmp.h>

static struct ps_fault last_fault;
static int claims;
static bool claim_answer;
static int earlier_calls;
static void *earlier_address;
static bool earlier_mask_held;
static bool earlier_own_blocked;
static sigjmp_buf out;

static bool claim(const struct ps_fault *fault) {
    last_fault = *fault;
    claims++;
    return claim_answer;
}

static void earlier(int number, siginfo_t *info, void *context) {
    (void)context;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    earlier_calls++;
    earlier_address = info->si_addr;
    earlier_mask_held = sigismember(&now, SIGUSR1) == 1;
    earlier_own_blocked = sigismember(&now, number) == 1;
    if (info->si_code > 0) {
        siglongjmp(out, 1);
    }
}

#define EARLIER                                                                                    \
    ((void (*)(int))2) /* the function above; no value that SIG_DFL and SIG_IGN have               \
                        */

/* Sets the action that was there before, then ours. */
static void set_up(void (*handler)(int), int flags, bool answer) {
    struct sigaction action = {.sa_flags = flags};
    if (handler == EARLIER) {
        action.sa_sigaction = earlier;
        action.sa_flags |= SA_SIGINFO;
        sigaddset(&action.sa_mask, SIGUSR1);
    } else {
        action.sa_handler = handler;
    }
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    claim_answer = answer;
    ps_fault_watch(claim);
}

static volatile char *forbidden_page(void) {
    char *base = ps_os_reserve(ps_os_page_bytes(), ps_os_page_bytes());
    REQUIRE(base != NULL && ps_os_protect(base, ps_os_page_bytes(), false));
    return base;
}

/* Runs in a child and returns the signal that it died of, 0 for a normal end. */
static int signal_of(void (*act)(void)) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void write_to_forbidden_page(void) { forbidden_page()[3] = 1; }

static void send_to_itself(void) { kill(getpid(), SIGSEGV); }

FRESH_TEST(a_fault_is_described) {
    set_up(EARLIER, 0, false);
    volatile char *page = forbidden_page();
    if (sigsetjmp(out, 1) == 0) {
        (void)page[5];
    }
    CHECK_PTR_EQ(last_fault.address, (const char *)page + 5);
    CHECK(last_fault.access == PS_FAULT_READ || last_fault.access == PS_FAULT_UNKNOWN);
    if (sigsetjmp(out, 1) == 0) {
        page[7] = 1;
    }
    CHECK_PTR_EQ(last_fault.address, (const char *)page + 7);
    CHECK(last_fault.access == PS_FAULT_WRITE || last_fault.access == PS_FAULT_UNKNOWN);
    CHECK_EQ(claims, 2);
    uintptr_t distance = last_fault.instruction - (uintptr_t)a_fault_is_described_in_child;
    CHECK(last_fault.instruction == 0 || distance < 4096);
}

FRESH_TEST(an_unclaimed_fault_reaches_the_earlier_action_with_its_mask) {
    set_up(EARLIER, 0, false);
    if (sigsetjmp(out, 1) == 0) {
        forbidden_page()[9] = 1;
    }
    CHECK_EQ(earlier_calls, 1);
    CHECK_PTR_EQ(earlier_address, last_fault.address);
    CHECK(earlier_mask_held && earlier_own_blocked);
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK_EQ(sigismember(&now, SIGUSR1), 0);
}

FRESH_TEST(the_earlier_action_may_take_the_same_signal_again) {
    set_up(EARLIER, SA_NODEFER, false);
    if (sigsetjmp(out, 1) == 0) {
        forbidden_page()[0] = 1;
    }
    CHECK(earlier_mask_held && !earlier_own_blocked);
}

FRESH_TEST(a_claimed_fault_comes_again_with_the_earlier_action) {
    set_up(EARLIER, 0, true);
    if (sigsetjmp(out, 1) == 0) {
        forbidden_page()[0] = 1;
    }
    CHECK_EQ(claims, 1);
    CHECK_EQ(earlier_calls, 1);
}

FRESH_TEST(default_and_ignored_faults_kill) {
    set_up(SIG_DFL, 0, false);
    CHECK_EQ(signal_of(write_to_forbidden_page), SIGSEGV);
    set_up(SIG_IGN, 0, false);
    CHECK_EQ(signal_of(write_to_forbidden_page), SIGSEGV);
    set_up(SIG_DFL, 0, true);
    CHECK_EQ(signal_of(write_to_forbidden_page), SIGSEGV);
}

FRESH_TEST(a_signal_that_was_sent_is_no_fault) {
    set_up(SIG_IGN, 0, true);
    CHECK_EQ(signal_of(send_to_itself), 0);
    set_up(SIG_DFL, 0, true);
    CHECK_EQ(signal_of(send_to_itself), SIGSEGV);
    set_up(EARLIER, 0, true);
    send_to_itself();
    CHECK_EQ(earlier_calls, 1);
    CHECK_EQ(claims, 0);
}

static void fault_twice(void) {
    if (sigsetjmp(out, 1) == 0) {
        forbidden_page()[0] = 1;
    }
    if (sigsetjmp(out, 1) == 0) {
        forbidden_page()[0] = 1;
    }
}

FRESH_TEST(an_action_for_once_is_one_for_once) {
    set_up(EARLIER, (int)SA_RESETHAND, false);
    CHECK_EQ(signal_of(fault_twice), SIGSEGV);
    set_up(EARLIER, 0, false);
    CHECK_EQ(signal_of(fault_twice), 0);
}

UNIT_MAIN
