/* SPDX-License-Identifier: MIT */
/*
 * Retired objects: readers follow a pointer while a writer replaces what it leads to, retires the
 * old object and moves the epoch on, with the system's barrier in the readers, or with their own
 * (fenced). No object is used after it was freed, nor while. Sources and faults to find:
 * retire.model.
 */
#include "pools/retire/retire.h"
#include "pools/common/barrier.h"
#include "pools/common/thread_number.h"

#include <chunks.h>

#include <explore.h>

struct object {
    uint64_t content;
};

static struct ps_retire *domain;
static struct object objects[2];
static struct object *x_current;
static unsigned freed;

__thread uint64_t ps_thread_self; /* serial 1 of each number */

static void be_thread(void) { ps_thread_self = (uint64_t)1 << 32 | explore_thread(); }

uint32_t ps_thread_number_ask(void) { return (uint32_t)ps_thread_self; }

bool ps_barrier_is_available(void) { return true; }

bool ps_barrier_everywhere(void) {
    explore_barrier_everywhere();
    return true;
}

uint32_t ps_thread_number_holder(uint32_t number) {
    (void)number;
    return 1;
}

bool ps_thread_number_claim(uint32_t number) {
    (void)number;
    return false; /* no thread has ended */
}

void ps_thread_number_release(uint32_t number) { (void)number; }

int sched_yield(void) { return 0; }

static void make(bool is_fenced) {
    const struct ps_retire_options options = {
        .limit_items = 2, .threads = 3, .is_fenced = is_fenced};
    domain = ps_retire_create(&options);
    EXPLORE_ASSERT(domain != NULL);
    x_current = &objects[0];
}

static void use_all(void) {
    for (uint32_t number = 1; number <= 3; number++) {
        ps_thread_self = (uint64_t)1 << 32 | number;
        EXPLORE_ASSERT(ps_retire_enter_slow(domain));
        ps_retire_leave(domain);
    }
}

static void set_up(void) {
    make(false);
    use_all();
}

static void set_up_unused(void) { make(false); }

static void set_up_fenced_unused(void) { make(true); }

static void set_up_fenced(void) {
    make(true);
    use_all();
}

static void kill(void *object, void *context) {
    (void)context;
    explore_use(object, sizeof(struct object));
    explore_kill(object, sizeof(struct object));
    freed++;
}

static void read(void) {
    be_thread();
    EXPLORE_ASSERT(ps_retire_enter(domain));
    const struct object *object = ps_load_acquire(&x_current); /* acquire: the program's */
    (void)*(volatile const uint64_t *)&object->content;
    ps_retire_leave(domain);
}

static void read_twice(void) {
    read();
    read();
}

static void replace(void) {
    be_thread();
    objects[1].content = 1;
    /* The program's: publishes the new object. */
    struct object *old = ps_exchange_release(&x_current, &objects[1]);
    EXPLORE_ASSERT(ps_retire(domain, old, kill, NULL));
}

static void replace_and_collect(void) {
    replace();
    (void)ps_retire_collect(domain);
}

/* Without steps of its own, which `step` makes. */
static void replace_and_free(void) {
    retire_domain_of(domain)->batch = 2;
    replace();
    struct ps_retire_entry *entry = &domain->entries[explore_thread()];
    ps_retire_tag(retire_domain_of(domain), entry);
    (void)ps_retire_free_ready(retire_domain_of(domain), entry, 1);
}

/* Another thread moves the epoch on. */
static void step(void) {
    (void)ps_retire_step(retire_domain_of(domain));
    (void)ps_retire_step(retire_domain_of(domain));
}

static void check(void) {
    explore_outcome(freed);
    ps_retire_destroy(domain);
    EXPLORE_ASSERT(freed == 1 && chunks_out() == 0);
}

const struct explore_scenario explore_scenarios[] = {
    {"replaced", set_up, {read, replace_and_collect}, check, false},
    {"read_again", set_up, {read_twice, replace_and_collect}, check, false},
    {"stepped", set_up, {read, replace_and_free, step}, check, false},
    {"unused", set_up_unused, {replace_and_collect, read}, check, false},
    {"fenced_unused", set_up_fenced_unused, {replace_and_collect, read}, check, false},
    {"fenced", set_up_fenced, {read, replace_and_collect}, check, false},
    {"fenced_again", set_up_fenced, {read_twice, replace_and_collect}, check, false},
    {"fenced_stepped", set_up_fenced, {read, replace_and_free, step}, check, false},
    {NULL, NULL, {NULL}, NULL, false},
};
