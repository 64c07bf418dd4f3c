/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread that lists and destroys pools (fork_step.h): the
 * child must find a whole list, and be able to use it.
 */
#include <poolshim/pool.h>
#include <poolshim/registry.h>

#include "tests/unit/fork_step.h"
#include "tests/unit/fresh.h"

static void count_one(const struct ps_pool_info *info, void *count) {
    CHECK_STR_EQ(info->name, "pool");
    ++*(size_t *)count;
}

static size_t listed(void) {
    size_t count = 0;
    ps_pools_each(count_one, &count);
    return count;
}

static void list_and_end(void) {
    struct ps_pool pools[3];
    for (size_t i = 0; i < 3; i++) {
        ps_pool_init(&pools[i], 24, 0, NULL);
        ps_pool_enlist(&pools[i]);
    }
    ps_pool_destroy(&pools[1]);
    ps_pool_destroy(&pools[0]);
    ps_pool_destroy(&pools[2]);
}

static void list_in_the_child(void) {
    slowness_alarm(20);
    size_t before = listed();
    CHECK_CMP(before, <=, 3);
    struct ps_pool pools[40];
    for (size_t i = 0; i < 40; i++) {
        REQUIRE(ps_pool_init(&pools[i], 24, 0, NULL) && ps_pool_enlist(&pools[i]));
    }
    CHECK_EQ(listed(), before + 40);
    for (size_t i = 0; i < 40; i++) {
        ps_pool_destroy(&pools[i]);
    }
    CHECK_EQ(listed(), before);
    alarm(0);
}

FRESH_TEST(a_fork_at_any_instruction_leaves_the_list_whole) {
    fork_at_each_step(NULL, list_and_end, list_in_the_child, 11);
}

UNIT_MAIN
