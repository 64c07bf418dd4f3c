/* SPDX-License-Identifier: MIT */
/*
 * A shared intrusive pool: counted references dropped by any thread, items that are returned while
 * the owner takes new ones or destroys the pool. The memory is freed once, with the last of them;
 * an item is recycled by the thread that drops the last reference, after all others are done with
 * the object. Sources, bounds and faults to find: intrusive.model.
 */
#include <poolshim/intrusive.h>

#include <chunks.h>

#include <explore.h>

struct object {
    struct ps_intrusive_item item; /* first */
    uint64_t content;
};

static struct ps_intrusive pool;
static struct ps_intrusive_item *items[2];

/* Called by the thread that drops the last reference. */
static void wipe(struct ps_intrusive_item *item, void *context) {
    (void)context;
    explore_use(&((struct object *)item)->content, 8);
}

static void set_up(void) {
    const struct ps_intrusive_options options = {.bytes = sizeof(struct object),
                                                 .is_shared = 1,
                                                 .max_items = 3,
                                                 .step_items = 3,
                                                 .recycle = wipe};
    EXPLORE_ASSERT(ps_intrusive_init(&pool, &options));
    items[0] = ps_intrusive_alloc(&pool);
    items[1] = ps_intrusive_alloc(&pool);
}

static void set_up_counted(void) {
    set_up();
    ps_intrusive_take_shared(items[0]);
    ps_intrusive_drop_shared(items[1]);
}

static void drop(unsigned i) {
    explore_use(&((struct object *)items[i])->content, 8);
    ps_intrusive_drop_shared(items[i]);
}

static void drop_0(void) { drop(0); }

static void drop_1(void) { drop(1); }

/* One of two references: the object has other readers. */
static void look_and_drop(void) {
    const struct object *object = (const struct object *)items[0];
    EXPLORE_ASSERT(*(volatile const uint64_t *)&object->content == 0);
    ps_intrusive_drop_shared(items[0]);
}

static void end(void) { ps_intrusive_destroy(&pool); }

static void take_and_drop(void) {
    struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
    EXPLORE_ASSERT(item != NULL);
    explore_use(&((struct object *)item)->content, 8);
    ps_intrusive_drop_shared(item);
}

/* The third item was never allocated; a second take succeeds only after a return. */
static void take_twice(void) {
    struct ps_intrusive_item *kept = ps_intrusive_alloc(&pool);
    struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
    EXPLORE_ASSERT(kept != NULL && kept != item);
    if (item != NULL) {
        explore_use(&((struct object *)item)->content, 8);
        ps_intrusive_drop_shared(item);
    }
    ps_intrusive_drop_shared(kept);
}

static void take_and_end(void) {
    take_and_drop();
    end();
}

static void all_given(void) { EXPLORE_ASSERT(chunks_out() == 0); }

static void all_given_at_end(void) {
    EXPLORE_ASSERT(chunks_out() != 0);
    end();
    all_given();
}

const struct explore_scenario explore_scenarios[] = {
    {"ends", set_up, {end, drop_0, drop_1}, all_given, false},
    {"goes_on", set_up, {take_twice, drop_0, drop_1}, all_given_at_end, false},
    {"counted",
     set_up_counted,
     {take_twice, look_and_drop, look_and_drop},
     all_given_at_end,
     false},
    {"counted_ends", set_up_counted, {end, look_and_drop, look_and_drop}, all_given, false},
    {"goes_on_and_ends", set_up, {take_and_end, drop_0, drop_1}, all_given, true},
    {NULL, NULL, {NULL}, NULL, false},
};
