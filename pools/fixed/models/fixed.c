/* SPDX-License-Identifier: MIT */
/*
 * A shared fixed pool: threads take, use and return objects of a pool that is too small for all of
 * them at a time. No object is in two hands, its contents go with it, none is lost. Sources and
 * faults to find: fixed.model.
 */
#include <poolshim/fixed.h>

#include <explore.h>

enum { OBJECTS = 3 };

struct object {
    uint64_t content;
};

static PS_FIXED(struct object, OBJECTS) objects = PS_FIXED_INIT(objects);
static struct object *held[2];

/* Two of the objects are in use. */
static void set_up(void) {
    held[0] = ps_fixed_alloc_shared(&objects.pool);
    held[1] = ps_fixed_alloc_shared(&objects.pool);
}

/* All of them are free, in another order than that of address. */
static void set_up_free(void) {
    set_up();
    ps_fixed_free_shared(&objects.pool, held[0]);
    ps_fixed_free_shared(&objects.pool, held[1]);
}

static void use_and_free(struct object *object) {
    explore_use(object, sizeof *object);
    ps_fixed_free_shared(&objects.pool, object);
}

static void take_and_free(void) {
    struct object *object = ps_fixed_alloc_shared(&objects.pool);
    if (object != NULL) {
        use_and_free(object);
    }
}

/* Takes two, returns the first: the head is again as another thread has read it, but is followed by
 * another object. */
static void take_two_and_free(void) {
    struct object *first = ps_fixed_alloc_shared(&objects.pool);
    struct object *second = ps_fixed_alloc_shared(&objects.pool);
    if (first != NULL) {
        use_and_free(first);
    }
    (void)second; /* remains in use */
}

static void take_and_keep(void) {
    struct object *object = ps_fixed_alloc_shared(&objects.pool);
    if (object != NULL) {
        explore_use(object, sizeof *object);
    }
}

static void free_0(void) { use_and_free(held[0]); }

static void free_1(void) { use_and_free(held[1]); }

/* Objects not in use are exactly those on the list, each once. */
static void check_list(void) {
    bool is_listed[OBJECTS] = {false};
    uint32_t index = (uint32_t)objects.pool.x_head;
    while (index != OBJECTS) {
        EXPLORE_ASSERT(index < OBJECTS && !is_listed[index]);
        EXPLORE_ASSERT(objects.x_next[index] != PS_FIXED_IN_USE);
        is_listed[index] = true;
        index = ps_fixed_follow(index, objects.x_next[index]);
    }
    for (index = 0; index < OBJECTS; index++) {
        EXPLORE_ASSERT(is_listed[index] != (objects.x_next[index] == PS_FIXED_IN_USE));
    }
}

static void check_all_free(void) {
    check_list();
    for (uint32_t index = 0; index < OBJECTS; index++) {
        EXPLORE_ASSERT(objects.x_next[index] != PS_FIXED_IN_USE);
    }
}

const struct explore_scenario explore_scenarios[] = {
    {"transfer", set_up, {free_0, take_and_free, free_1}, check_all_free, false},
    {"three", set_up_free, {take_and_free, take_and_free, take_and_keep}, check_list, false},
    {"again", set_up_free, {take_and_keep, take_two_and_free}, check_list, false},
    {"again_three",
     set_up_free,
     {take_and_keep, take_two_and_free, take_and_free},
     check_list,
     true},
    {NULL, NULL, {NULL}, NULL, false},
};
