/* SPDX-License-Identifier: MIT */
/*
 * Memory as C11 has it, for one execution at a time. Every atomic word retains all its values, in
 * the order of the stores; a load may see any of them that is not hidden: by a later one that
 * happens before the load, or that something which happens before the load has seen already. Plain
 * accesses that are not ordered by "happens before" are data races. Real memory always has the
 * newest value; the writes of an execution are undone after it. Called by hooks.c and explore.c.
 */
#include "bytes.h"
#include "checker.h"
#include "habits.h"
#include "orders.h"
#include "word.h"

#include <string.h>

#define TABLE_SIZE ((size_t)1 << 13)

static struct word *words[TABLE_SIZE];
static uint32_t lock_count;
static uint32_t held[CLOCKS];           /* locks, by thread */
static struct clock fenced[CLOCKS];     /* by thread: what its later stores release in any case */
static struct clock unacquired[CLOCKS]; /* what its earlier loads would have acquired */

static struct word *find_word(uintptr_t address) {
    size_t slot = checker_slot(address, TABLE_SIZE);
    while (words[slot] != NULL && words[slot]->address != address) {
        slot = (slot + 1) % TABLE_SIZE;
    }
    return words[slot];
}

static struct word *word_of(uintptr_t address, size_t bytes) {
    struct word *word = find_word(address);
    if (word == NULL) {
        size_t slot = checker_slot(address, TABLE_SIZE);
        while (words[slot] != NULL) {
            slot = (slot + 1) % TABLE_SIZE;
        }
        word = words[slot] = checker_allocate(sizeof *word);
        word->address = address;
        word->bytes = (uint32_t)bytes;
        word->known = word->learned = habit_of_nobody();
    }
    if (word->bytes != bytes) {
        explore_fail("an atomic word accessed in two sizes");
    }
    return word;
}

void memory_plain(uintptr_t address, size_t bytes, bool is_write, uintptr_t code) {
    if (checker_is_private(address)) {
        return;
    }
    checker_note(is_write ? "write" : "read", address, bytes, "plain", code);
    bytes_touch(address, bytes, is_write ? WRITE : READ);
    if (!is_write) {
        return;
    }
    bytes_save(address, bytes);
    for (uintptr_t at = address; at < address + bytes; at++) {
        struct word *word = find_word(at);
        if (word != NULL) {
            word->run = 0; /* its old values are hidden from all threads, or there was a race */
        }
    }
}

void explore_use(const void *start, size_t bytes) {
    memory_plain((uintptr_t)start, bytes, true, (uintptr_t)__builtin_return_address(0));
}

void memory_begin(void) {
    bytes_begin();
    memset(held, 0, sizeof held);
    memset(fenced, 0, sizeof fenced);
    memset(unacquired, 0, sizeof unacquired);
}

/* ---- atomic words ---- */

/* The newest message known to a thread, by its own steps or earlier ones of others; older messages
 * are invisible to it. */
static uint32_t first_visible_to(const struct word *word, unsigned thread) {
    const struct clock *now = &checker.clock[thread];
    uint32_t first = 0;
    for (uint32_t i = word->count - 1; i > 0; i--) {
        const struct message *message = &word->messages[i];
        if (message->step <= now->at[message->writer]) {
            first = i;
            break;
        }
    }
    for (unsigned i = 0; i < CLOCKS; i++) {
        uint32_t count = word->sight_count[i];
        while (count != 0 && word->sights[i][count - 1].step > now->at[i]) {
            count--;
        }
        if (count != 0 && word->sights[i][count - 1].message > first) {
            first = word->sights[i][count - 1].message;
        }
    }
    return first;
}

static uint32_t first_readable(const struct word *word, int order) {
    uint32_t first = first_visible_to(word, checker.thread);
    for (uint32_t i = word->count; order == __ATOMIC_SEQ_CST && i-- > first + 1;) {
        if (word->messages[i].is_seq_cst) {
            return i; /* nothing before the last one in the single order */
        }
    }
    return first;
}

static void see_as(struct word *word, uint32_t message, unsigned thread) {
    uint32_t *count = &word->sight_count[thread];
    struct sight *last = &word->sights[thread][*count];
    if (*count != 0 && last[-1].message == message) {
        return;
    }
    *last = (struct sight){checker.clock[thread].at[thread], message};
    ++*count;
}

static void see(struct word *word, uint32_t message) { see_as(word, message, checker.thread); }

/* The words of this execution, one after the other; *i: 0 at first. */
static struct word *next_word(size_t *i) {
    while (*i < TABLE_SIZE) {
        struct word *word = words[(*i)++];
        if (word != NULL && word->run == checker.run) {
            return word;
        }
    }
    return NULL;
}

/* What the caller gives is what it had seen before the first of its fences, as it learns what
 * others have seen after the last: no order follows between two others. */
void memory_fence_with(unsigned other) {
    struct word *word;
    for (size_t i = 0; (word = next_word(&i)) != NULL;) {
        uint32_t theirs = first_visible_to(word, other);
        uint32_t ours = first_visible_to(word, checker.thread);
        word->fenced_from = theirs > word->fenced_from ? theirs : word->fenced_from;
        if (ours > theirs) {
            see_as(word, ours, other);
        }
    }
}

void memory_fences_end(void) {
    struct word *word;
    for (size_t i = 0; (word = next_word(&i)) != NULL;) {
        if (word->fenced_from > first_visible_to(word, checker.thread)) {
            see_as(word, word->fenced_from, checker.thread);
        }
        word->fenced_from = 0;
    }
}

void memory_settle(void) {
    struct word *word;
    for (size_t i = 0; (word = next_word(&i)) != NULL;) {
        for (unsigned thread = 1; thread < CLOCKS; thread++) {
            see_as(word, word->count - 1, thread);
        }
    }
}

/* ---- other threads that may access a word ---- */

static void learn(struct word *word, bool is_store) {
    habit_learn(&word->learned, is_store, held[checker.thread]);
}

bool memory_pass_is_final(void) {
    bool is_final = true;
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        if (words[i] != NULL) {
            is_final &= habit_cover(&words[i]->known, &words[i]->learned);
        }
    }
    return is_final;
}

void memory_forget_habits(void) {
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        if (words[i] != NULL) {
            words[i]->known = words[i]->learned = habit_of_nobody();
        }
    }
}

bool memory_is_alone(const struct word *word, bool is_store, unsigned thread, const bool *is_left) {
    return habit_is_alone(&word->known, is_store, thread, held[thread], is_left);
}

/*
 * While whatever two threads do to a word is ordered by other words, this one orders nothing, no
 * load has a choice, and its steps are like plain ones. Met without order, it is shared.
 */
static void meet(struct word *word, bool is_store) {
    if (!word->is_shared && bytes_is_met(word->address, is_store)) {
        word->is_shared = true;
        checker.is_widened = true;
    }
}

/* The word, ready for a step: the others have had their turn. NULL: the thread's own memory.
 * takes_lock: the step is to make it what it is not while it is 0. */
static struct word *enter(uintptr_t address, size_t bytes, bool is_store, bool takes_lock) {
    if (checker_is_private(address)) {
        return NULL;
    }
    struct word *word = word_of(address, bytes);
    if (checker.thread != 0) {
        meet(word, is_store);
        if (word->is_shared) {
            checker_point(word, is_store,
                          takes_lock && word->lock != 0 ? (const uint32_t *)address : NULL);
            learn(word, is_store);
        }
    }
    if (word->run != checker.run) { /* the value was written plainly, or before all */
        uint8_t writer;
        uint32_t step = bytes_last_write(address, &writer);
        word->run = checker.run;
        word->count = 1;
        word->fenced_from = 0; /* an execution may end within a barrier */
        memset(word->sight_count, 0, sizeof word->sight_count);
        word->messages[0] = (struct message){.value = bytes_get(address, bytes),
                                             .name = step * CLOCKS + writer,
                                             .step = step,
                                             .writer = writer};
    }
    return word;
}

static uint64_t event(const struct word *word, uint64_t read, uint64_t previous) {
    return word->is_shared && checker.thread != 0 ? checker_event(read, previous) : 0;
}

static uint64_t leave(uint64_t value) {
    checker_now()->at[checker.thread]++;
    return value;
}

/* The thread has read the message. */
static uint64_t observe(struct word *word, uint32_t index, int order) {
    const struct message *message = &word->messages[index];
    see(word, index);
    clock_join(order_is_acquire(order) ? checker_now() : &unacquired[checker.thread],
               &message->released);
    return message->value;
}

/* Not a step on a word: what a fence orders depends on its own thread's earlier steps only. */
void memory_fence(int order) {
    if (order == __ATOMIC_SEQ_CST) {
        explore_fail("fences that are sequentially consistent are beyond the explorer");
    }
    checker_note("fence", 0, 0, order_name(order), (uintptr_t)__builtin_return_address(0));
    if (order_is_acquire(order)) {
        clock_join(checker_now(), &unacquired[checker.thread]);
    }
    if (order_is_release(order)) {
        fenced[checker.thread] = *checker_now();
        leave(0); /* later steps are not released */
    }
}

static void append(struct word *word, uint64_t value, uint64_t name, int order,
                   const struct clock *sequence) {
    if (word->count == MESSAGES_MAX) {
        explore_fail("does not end: too many stores to one word");
    }
    struct message *message = &word->messages[word->count];
    *message = (struct message){.value = value,
                                .name = name,
                                .step = checker_now()->at[checker.thread],
                                .writer = (uint8_t)checker.thread,
                                .is_seq_cst = order == __ATOMIC_SEQ_CST};
    if (sequence != NULL) {
        message->released = *sequence;
    }
    clock_join(&message->released,
               order_is_release(order) ? checker_now() : &fenced[checker.thread]);
    see(word, word->count++);
    if (word->lock != 0) {
        held[checker.thread] &= ~word->lock;
        held[checker.thread] |= value != 0 ? word->lock : 0;
    }
    bytes_put(word->address, word->bytes, value);
}

uint64_t memory_load(uintptr_t address, size_t bytes, int order, uintptr_t code) {
    struct word *word = enter(address, bytes, false, false);
    if (word == NULL) {
        return bytes_get(address, bytes);
    }
    uint32_t readable = word->count - first_readable(word, order);
    uint32_t index = word->count - 1 - checker_choose(readable);
    uint64_t value = word->messages[index].value;
    checker_note(index + 1 == word->count ? "load" : "load, old", address, value, order_name(order),
                 code);
    bytes_touch(address, bytes, LOAD);
    event(word, word->messages[index].name, 0);
    return leave(observe(word, index, order));
}

void memory_store(uintptr_t address, size_t bytes, uint64_t value, int order, uintptr_t code) {
    struct word *word = enter(address, bytes, true, false);
    if (word == NULL) {
        memcpy((void *)address, &value, bytes);
        return;
    }
    checker_note("store", address, value, order_name(order), code);
    bytes_touch(address, bytes, STORE);
    append(word, value, event(word, 0, word->messages[word->count - 1].name), order, NULL);
    leave(0);
}

/* Reads the newest message and appends one. */
static uint64_t modify(struct word *word, uint64_t value, int order) {
    struct message *last = &word->messages[word->count - 1];
    uint64_t old = observe(word, word->count - 1, order);
    append(word, value, event(word, last->name, last->name), order, &last->released);
    return leave(old);
}

static uint64_t result_of(enum memory_operation operation, uint64_t old, uint64_t operand,
                          size_t bytes) {
    uint64_t value = operation == MEMORY_ADD   ? old + operand
                     : operation == MEMORY_SUB ? old - operand
                     : operation == MEMORY_AND ? (old & operand)
                     : operation == MEMORY_OR  ? (old | operand)
                                               : operand;
    return bytes == 8 ? value : value & ((UINT64_C(1) << bytes * 8) - 1);
}

uint64_t memory_change(uintptr_t address, size_t bytes, enum memory_operation operation,
                       uint64_t operand, int order, uintptr_t code) {
    struct word *word = enter(address, bytes, true, false);
    uint64_t old = bytes_get(address, bytes);
    uint64_t value = result_of(operation, old, operand, bytes);
    if (word == NULL) {
        memcpy((void *)address, &value, bytes);
        return old;
    }
    checker_note("change", address, value, order_name(order), code);
    bytes_touch(address, bytes, LOAD);
    bytes_touch(address, bytes, STORE);
    return modify(word, value, order);
}

/* Which message a swap may fail on; the last of `count` is success, when it can succeed. */
static uint32_t outcomes(const struct word *word, uint64_t expected, int failure_order,
                         bool is_weak, uint32_t *out) {
    uint32_t count = 0;
    bool can_be_spurious =
        is_weak && checker.thread != 0 && checker.spurious < checker.spurious_max;
    for (uint32_t i = word->count; i-- > first_readable(word, failure_order);) {
        if (word->messages[i].value != expected || (can_be_spurious && i + 1 == word->count)) {
            out[count++] = i;
        }
    }
    return count;
}

bool memory_swap(uintptr_t address, size_t bytes, uint64_t *expected, uint64_t value, int order,
                 int failure_order, bool is_weak, uintptr_t code) {
    struct word *word = enter(address, bytes, true, *expected == 0);
    uint64_t newest = bytes_get(address, bytes);
    if (word == NULL) {
        if (newest == *expected) {
            memcpy((void *)address, &value, bytes);
            return true;
        }
        *expected = newest;
        return false;
    }
    uint32_t failures[MESSAGES_MAX];
    uint32_t count = outcomes(word, *expected, failure_order, is_weak, failures);
    if (word->lock != 0 && newest == *expected) {
        count = 0; /* the waiting thread has seen that */
    }
    uint32_t choice = checker_choose(count + (newest == *expected ? 1 : 0));
    bytes_touch(address, bytes, LOAD);
    if (choice == count) {
        checker_note("swap", address, value, order_name(order), code);
        bytes_touch(address, bytes, STORE);
        modify(word, value, order);
        return true;
    }
    const struct message *message = &word->messages[failures[choice]];
    checker_note("swap failed", address, message->value, order_name(failure_order), code);
    checker.spurious += message->value == *expected;
    event(word, message->name, 0);
    *expected = leave(observe(word, failures[choice], failure_order));
    return false;
}

void memory_note_lock(const uint32_t *address) {
    struct word *word = word_of((uintptr_t)address, sizeof *address);
    if (word->lock == 0 && lock_count < 32) {
        word->lock = UINT32_C(1) << lock_count++;
        checker.is_widened = true;
    }
    checker.is_widened |= !word->is_shared;
    word->is_shared = true;
}

uint64_t memory_newest(const uint32_t *address) {
    struct word *word = word_of((uintptr_t)address, sizeof *address);
    learn(word, false);
    if (word->run != checker.run) { /* plain accesses only so far */
        checker_event(0, 0);
        return *address;
    }
    checker_event(word->messages[word->count - 1].name, 0);
    see(word, word->count - 1);
    checker_now()->at[checker.thread]++;
    return *address;
}
