/* SPDX-License-Identifier: MIT */
/*
 * Retired objects: readers follow a pointer while a writer replaces what it leads to, retires the
 * old object and moves the epoch on. No object is used after it was freed, nor while. Sources and
 * faults to find: retire.model.
 */
#include "pools/retire/retire.h"
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

__thread uint32_t ps_thread_number;
__thread uint32_t ps_thread_serial = 1;

uint32_t ps_thread_number_ask(void) { return explore_thread(); }

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

static void set_up(void) {
    const struct ps_retire_options options = {.limit_items = 4, .threads = 3};
    domain = ps_retire_create(&options);
    EXPLORE_ASSERT(domain != NULL);
    for (size_t index = 0; index < 3; index++) { /* all threads have used it before */
        domain->entries[index].x_serial = ps_thread_serial;
    }
    retire_domain_of(domain)->x_used_count = 3;
    x_current = &objects[0];
}

static void kill(void *object, void *context) {
    (void)context;
    explore_use(object, sizeof(struct object));
    explore_kill(object, sizeof(struct object));
    freed++;
}

/* As ps_retire_leave, whose thread-local number all threads of a model share. */
static void leave(void) {
    struct ps_retire_entry *entry = &domain->entries[explore_thread() - 1];
    entry->nesting--;
    ps_store_release(&entry->x_state, (uint64_t)0); /* release: as there */
}

static void read(void) {
    EXPLORE_ASSERT(ps_retire_enter_slow(domain));
    const struct object *object = ps_load_acquire(&x_current); /* acquire: the program's */
    (void)*(volatile const uint64_t *)&object->content;
    leave();
}

static void read_twice(void) {
    read();
    read();
}

static void replace(void) {
    objects[1].content = 1;
    /* The program's: publishes the new object. */
    struct object *old = ps_exchange_release(&x_current, &objects[1]);
    EXPLORE_ASSERT(ps_retire(domain, old, kill, NULL));
}

static void replace_and_collect(void) {
    replace();
    (void)ps_retire_collect(domain);
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
    {"stepped", set_up, {read, replace, step}, check, false},
    {NULL, NULL, {NULL}, NULL, false},
};
