/* SPDX-License-Identifier: MIT */
/*
 * Orders and choices. An execution is a list of choices: the thread that takes the next step on a
 * shared word, and the value it sees. Depth first, each execution repeats all choices of the last
 * one up to the last that has an alternative. It is cut off at a state that has been seen before,
 * from which everything has been explored. Threads are switched here, in one thread of the system,
 * so every execution can be repeated. Owns main. Calls memory.c.
 */
#include "bytes.h"
#include "checker.h"
#include "choices.h"

#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 << 10)
#define NOTES_MAX 4096
#define TLS_MAX 4096
#define SCOUTS 500

struct fiber {
    jmp_buf at;
    void (*body)(void);
    const uint32_t *awaits_zero; /* enabled when it is 0 */
    const uint32_t *sleeps_on;
    const struct word *next_word; /* that its next step is on */
    bool next_is_store;
    bool has_started, has_ended;
    unsigned char tls[TLS_MAX];
    char stack[STACK_BYTES] __attribute__((aligned(64)));
};

struct note {
    unsigned thread;
    const char *what, *more;
    uintptr_t address, code;
    uint64_t value;
};

struct checker checker;

static struct fiber fibers[CLOCKS];
static jmp_buf scheduler;
static const struct explore_scenario *scenario;
static bool is_whole;  /* every order is tried, even where one tells as much as all */
static uint64_t seed;  /* not 0: of a random execution */
static uint64_t queue; /* last step on any futex's queue */
static struct note notes[NOTES_MAX];
static uint32_t note_count;
static uint64_t outcomes; /* a bit each */
static unsigned char *tls_start;
static unsigned char tls_image[TLS_MAX];
static size_t tls_bytes;

/* ---- failures ---- */

void checker_note(const char *what, uintptr_t address, uint64_t value, const char *more,
                  uintptr_t code) {
    notes[note_count++ % NOTES_MAX] =
        (struct note){checker.thread, what, more, address, code, value};
}

void explore_fail(const char *text) {
    printf("%s: %s, thread %u, execution %u\n", scenario != NULL ? scenario->name : "?", text,
           checker.thread, checker.run);
    uint32_t first = note_count > 300 ? note_count - 300 : 0;
    for (uint32_t i = first; i < note_count && i - first < NOTES_MAX; i++) {
        const struct note *note = &notes[i % NOTES_MAX];
        printf("  %u %-11s %-7s 0x%lx = 0x%lx @ 0x%lx\n", note->thread, note->what, note->more,
               (unsigned long)note->address, (unsigned long)note->value,
               (unsigned long)note->code - 1);
    }
    exit(1);
}

/* ---- threads ---- */

void explore_outcome(unsigned outcome) { outcomes |= UINT64_C(1) << outcome; }

unsigned explore_thread(void) { return checker.thread; }

bool checker_is_private(uintptr_t address) {
    const struct fiber *fiber = &fibers[checker.thread];
    return address - (uintptr_t)fiber->stack < STACK_BYTES ||
           address - (uintptr_t)tls_start < tls_bytes || address == (uintptr_t)&errno;
}

static int find_tls(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            tls_start = info->dlpi_tls_data;
            tls_bytes = info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1; /* the first is the program itself */
}

static void body_of_fiber(void) {
    struct fiber *fiber = &fibers[checker.thread];
    fiber->body();
    fiber->has_ended = true;
    _longjmp(scheduler, 1);
}

static void start(struct fiber *fiber) {
    static ucontext_t context;
    fiber->has_started = true;
    (void)getcontext(&context);
    context.uc_stack.ss_sp = fiber->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, body_of_fiber, 0);
    (void)setcontext(&context);
}

/* Runs a thread up to its next point. */
static void run(unsigned thread) {
    struct fiber *fiber = &fibers[thread];
    checker.thread = thread;
    memcpy(tls_start, fiber->tls, tls_bytes);
    if (_setjmp(scheduler) == 0) {
        if (!fiber->has_started) {
            start(fiber);
        }
        _longjmp(fiber->at, 1);
    }
    memcpy(fiber->tls, tls_start, tls_bytes);
}

static void give_way(void) {
    if (_setjmp(fibers[checker.thread].at) == 0) {
        _longjmp(scheduler, 1);
    }
}

void checker_point(const struct word *word, bool is_store, const uint32_t *lock) {
    fibers[checker.thread].next_word = word;
    fibers[checker.thread].next_is_store = is_store;
    fibers[checker.thread].awaits_zero = lock;
    give_way();
    fibers[checker.thread].awaits_zero = NULL;
}

void explore_until_zero(const uint32_t *word) {
    if (checker.thread == 0) {
        explore_fail("waits alone");
    }
    memory_note_lock(word); /* the next swap blocks */
}

void explore_sleep(const uint32_t *word, uint32_t value) {
    checker_point(NULL, true, NULL);
    checker_note("sleep", (uintptr_t)word, value, "futex", (uintptr_t)__builtin_return_address(0));
    if (memory_newest(word) != value) {
        return;
    }
    queue = checker_event(0, queue);
    fibers[checker.thread].sleeps_on = word;
    checker_point(NULL, true, NULL);
    (void)memory_newest(word); /* unblocked */
}

void explore_wake_one(const uint32_t *word) {
    checker_point(NULL, true, NULL);
    checker_note("wake", (uintptr_t)word, 0, "futex", (uintptr_t)__builtin_return_address(0));
    unsigned sleepers[CLOCKS];
    unsigned count = 0;
    for (unsigned i = 1; i < CLOCKS; i++) {
        if (fibers[i].sleeps_on == word) {
            sleepers[count++] = i;
        }
    }
    unsigned woken = count != 0 ? sleepers[checker_choose(count)] : 0;
    queue = checker_event(woken, queue);
    fibers[woken].sleeps_on = NULL;
}

void explore_time_passes(void) {
    checker_point(NULL, true, NULL);
    checker_note("time", 0, 0, "", (uintptr_t)__builtin_return_address(0));
    uint64_t places = 0; /* how far each thread is */
    for (unsigned i = 1; i < CLOCKS; i++) {
        places = places << 12 | (checker.events[i] & 0xfff);
    }
    (void)checker_event(places, 0);
    memory_settle();
}

void explore_barrier_everywhere(void) {
    unsigned others[CLOCKS];
    unsigned count = 0;
    for (unsigned i = 1; i < CLOCKS; i++) {
        if (i != checker.thread && fibers[i].body != NULL) {
            others[count++] = i;
        }
    }
    while (count != 0) { /* in each order */
        checker_point(NULL, true, NULL);
        unsigned choice = checker_choose(count);
        unsigned other = others[choice];
        checker_note("barrier", 0, other, "", (uintptr_t)__builtin_return_address(0));
        (void)checker_event(checker.events[other], other); /* how far that one is */
        memory_fence_with(other);
        others[choice] = others[--count];
    }
    memory_fences_end();
}

/* ---- executions ---- */

static void begin(void) {
    uint32_t number = checker.run + 1;
    unsigned spurious_max = checker.spurious_max;
    memset(&checker, 0, sizeof checker);
    checker.run = number;
    checker.spurious_max = spurious_max;
    note_count = 0;
    queue = 0;
    for (unsigned i = 0; i < CLOCKS; i++) {
        struct fiber *fiber = &fibers[i];
        fiber->body = i == 0 ? scenario->set_up : scenario->threads[i - 1];
        fiber->awaits_zero = fiber->sleeps_on = NULL;
        fiber->has_started = false;
        fiber->has_ended = fiber->body == NULL;
        memcpy(fiber->tls, tls_image, tls_bytes);
        checker.clock[i].at[i] = 1;
    }
    memory_begin();
    choices_begin(seed);
}

/* The threads that may take the next step: all that can, or one whose step is independent of all
 * others. */
static unsigned enabled(unsigned *out) {
    bool is_left[CLOCKS];
    unsigned count = 0;
    unsigned left = 0;
    for (unsigned i = 1; i < CLOCKS; i++) {
        const struct fiber *fiber = &fibers[i];
        is_left[i] = !fiber->has_ended;
        left += is_left[i];
        if (is_left[i] && fiber->sleeps_on == NULL &&
            (fiber->awaits_zero == NULL || *fiber->awaits_zero == 0)) {
            out[count++] = i;
        }
    }
    if (count == 0 && left != 0) {
        explore_fail("deadlock: every thread that has not ended is blocked");
    }
    for (unsigned i = 0; i < count && count > 1 && !choices_are_random() && !is_whole; i++) {
        const struct fiber *fiber = &fibers[out[i]];
        if (fiber->next_word != NULL &&
            memory_is_alone(fiber->next_word, fiber->next_is_store, out[i], is_left)) {
            out[0] = out[i];
            count = 1;
        }
    }
    return count;
}

static void run_alone(void (*body)(void)) {
    fibers[0].body = body;
    fibers[0].has_started = false;
    if (body != NULL) {
        run(0);
    }
    checker.clock[0].at[0]++;
}

/* True: it came to an end that is new. */
static bool execute(void) {
    begin();
    run_alone(scenario->set_up);
    for (unsigned i = 1; i < CLOCKS; i++) {
        clock_join(&checker.clock[i], &checker.clock[0]);
        if (fibers[i].body != NULL) {
            run(i);
        }
    }
    unsigned able[CLOCKS];
    for (unsigned count; (count = enabled(able)) != 0;) {
        if (!choices_are_random() && !choices_are_repeated() && !choices_is_new()) {
            return false;
        }
        run(able[choices_choose(count)]);
        if (checker.is_widened) {
            return false;
        }
    }
    if (!choices_are_random() && !choices_is_new()) {
        return false;
    }
    for (unsigned i = 1; i < CLOCKS; i++) {
        clock_join(&checker.clock[0], &checker.clock[i]);
    }
    run_alone(scenario->check);
    return true;
}

static void forget(void) {
    outcomes = 0;
    choices_forget();
}

/* Random executions that learn which threads access which words, so that few passes are needed. */
static void scout(void) {
    forget();
    memory_forget_habits();
    for (unsigned i = 0; i < SCOUTS; i++) {
        seed = i + 1;
        (void)execute();
        bytes_end();
        if (checker.is_widened) {
            memory_forget_habits();
        }
    }
    seed = 0;
    (void)memory_pass_is_final();
}

/* All executions by the habits known so far; false: they were not all. */
static bool pass(uint64_t *ends, uint64_t *runs) {
    *ends = *runs = 0;
    forget();
    do {
        ++*runs;
        *ends += execute();
        bytes_end();
        if (checker.is_widened) {
            scout();
            return false;
        }
    } while (choices_advance());
    return memory_pass_is_final();
}

static void explore(void) {
    uint64_t ends, runs;
    unsigned passes = 1;
    scout();
    while (!pass(&ends, &runs)) { /* ends: each learns something, and that is finite */
        passes++;
    }
    printf("%s: %lu executions, %zu states, %lu runs, pass %u", scenario->name, (unsigned long)ends,
           choices_states(), (unsigned long)runs, passes);
    for (unsigned i = 0; i < 64; i++) {
        if ((outcomes >> i & 1) != 0) {
            printf("%s%u", (outcomes & ((UINT64_C(1) << i) - 1)) == 0 ? ", outcomes " : " ", i);
        }
    }
    printf("\n");
    (void)fflush(stdout);
}

int main(int argument_count, char **arguments) {
    bool is_large = false;
    const char *only = NULL;
    for (int i = 1; i < argument_count; i++) {
        if (strcmp(arguments[i], "--large") == 0) {
            is_large = true;
            checker.spurious_max = 1;
        } else if (strcmp(arguments[i], "--whole") == 0) {
            is_whole = true;
        } else {
            only = arguments[i];
        }
    }
    (void)dl_iterate_phdr(find_tls, NULL);
    if (tls_bytes > TLS_MAX) {
        explore_fail("more thread-local memory than the explorer saves");
    }
    memcpy(tls_image, tls_start, tls_bytes);
    for (scenario = explore_scenarios; scenario->name != NULL; scenario++) {
        if (only != NULL ? strcmp(only, scenario->name) == 0 : is_large || !scenario->is_large) {
            explore();
        }
    }
    return 0;
}
