/* SPDX-License-Identifier: MIT */
/*
 * The inside of the explorer: what explore.c and choices.c (orders, choices),
 * memory.c (what a load may see) and hooks.c (what the compiler calls) know of each other.
 */
#ifndef CHECKER_H
#define CHECKER_H

#include <explore.h>

#define CLOCKS (EXPLORE_THREADS + 1) /* 0: set_up and check */

/* Per thread, the number of its steps that happen before. */
struct clock {
    uint32_t at[CLOCKS];
};

static inline void clock_join(struct clock *to, const struct clock *from) {
    for (unsigned i = 0; i < CLOCKS; i++) {
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
    }
}

struct checker {
    unsigned thread;            /* that runs */
    struct clock clock[CLOCKS]; /* of each thread */
    uint32_t events[CLOCKS];    /* steps on shared words so far */
    uint64_t state;             /* of the execution so far: see checker_event */
    uint32_t run;               /* number of this execution, from 1 */
    unsigned spurious;          /* weak swaps that failed for nothing in this execution */
    unsigned spurious_max;
    bool is_widened; /* a word turned out to be shared: all must be explored again */
};

extern struct checker checker;

/* ---- explore.c, choices.c ---- */

static inline struct clock *checker_now(void) { return &checker.clock[checker.thread]; }

static inline size_t checker_slot(uintptr_t key, size_t slots) {
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % slots;
}

/* Zeroed. Does not return without. */
void *checker_allocate(size_t bytes);

/* One of 0 .. count - 1; over all executions, each. */
unsigned checker_choose(unsigned count);

struct word;

/* Lets the others run before the calling thread's next step, on this word (NULL: unlike any other
 * step), and until the lock, if there is one, is 0. */
void checker_point(const struct word *word, bool is_store, const uint32_t *lock);

/*
 * A step on a shared word: reads what `read` names, follows `previous` in the order of that word's
 * changes. Returns the step's own name. Two executions with the same steps that read and follow the
 * same are in the same state, whatever the order in which their threads ran: the sum of all is what
 * tells states apart.
 */
uint64_t checker_event(uint64_t read, uint64_t previous);

/* The address is the calling thread's alone: its stack, or thread-local. */
bool checker_is_private(uintptr_t address);

void checker_note(const char *what, uintptr_t address, uint64_t value, const char *more,
                  uintptr_t code);

/* ---- memory.c ---- */

void memory_begin(void); /* an execution */

/* A plain access. */
void memory_plain(uintptr_t address, size_t bytes, bool is_write, uintptr_t code);

enum memory_operation { MEMORY_EXCHANGE, MEMORY_ADD, MEMORY_SUB, MEMORY_AND, MEMORY_OR };

uint64_t memory_load(uintptr_t address, size_t bytes, int order, uintptr_t code);
void memory_store(uintptr_t address, size_t bytes, uint64_t value, int order, uintptr_t code);
uint64_t memory_change(uintptr_t address, size_t bytes, enum memory_operation operation,
                       uint64_t operand, int order, uintptr_t code);
bool memory_swap(uintptr_t address, size_t bytes, uint64_t *expected, uint64_t value, int order,
                 int failure_order, bool is_weak, uintptr_t code);

/* A fence: acquire, release or both. */
void memory_fence(int order);

/* The word is a lock whose inside is not under test: swaps from 0 block until it is 0. */
void memory_note_lock(const uint32_t *word);

/*
 * True when no other step can be distinguished in order from this step of the thread: every other
 * thread has made its last access to the word, or needs a lock that the thread holds. The step may
 * then as well be the next one, and no other order need be tried. Relies on earlier passes over all
 * executions; the last pass is the one that has learned nothing new.
 */
bool memory_is_alone(const struct word *word, bool is_store, unsigned thread, const bool *is_left);
bool memory_pass_is_final(void);
void memory_forget_habits(void);

/* Every thread has seen all that was stored. */
void memory_settle(void);

/* A fence in the calling thread and one in another, in any order: each sees from now on, or
 * something newer, what the other one has seen; the caller when memory_fences_end is called. */
void memory_fence_with(unsigned other);
void memory_fences_end(void);

/* The newest value, without a choice, as a step of the kernel. */
uint64_t memory_newest(const uint32_t *word);

#endif
