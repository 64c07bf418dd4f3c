// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The mode of a configuration is the one in use, and cannot be changed afterwards. */
#include "tests/unit/engine.h"

#include "pools/engine/heap/mode.h"
#include "pools/engine/profile/demand.h"

#include <signal.h>

static void check_mode(enum ps_mode_index index) {
    ps_engine_start();
    CHECK(memcmp(&ps_mode.entry, &ps_mode_entries[index], sizeof ps_mode.entry) == 0);
    CHECK(memcmp(&ps_mode.hook, &ps_mode_hooks[index], sizeof ps_mode.hook) == 0);
    bool is_plain = index == PS_MODE_PLAIN || index == PS_MODE_SAMPLED;
    ps_heap_free(ps_heap_alloc(10));
    CHECK_EQ(ps_front_thread.fast_limit != 0, is_plain || index == PS_MODE_ZEROED);
    CHECK_EQ(ps_slab_has_tags, is_plain);
}

FRESH_TEST(the_plain_mode_is_the_default) { check_mode(PS_MODE_PLAIN); }

FRESH_TEST(samples_have_a_mode) {
    engine_config.guard_sample = 1000;
    check_mode(PS_MODE_SAMPLED);
}

FRESH_TEST(level_1_has_a_mode_of_its_own) {
    engine_config.harden = 1;
    check_mode(PS_MODE_ZEROED);
}

FRESH_TEST(level_2_has_a_mode) {
    engine_config.harden = 2;
    check_mode(PS_MODE_HARDENED);
}

FRESH_TEST(level_3_has_a_mode_with_call_sites) {
    engine_config.harden = 3;
    check_mode(PS_MODE_SITED);
}

FRESH_TEST(recording_has_a_mode) {
    engine_config.record = true;
    check_mode(PS_MODE_RECORDED);
}

FRESH_TEST(without_memory_for_a_recording_the_mode_is_plain) {
    engine_config.record = true;
    fake_os_fail_from(1);
    ps_engine_start();
    CHECK(memcmp(&ps_mode.entry, &ps_mode_entries[PS_MODE_PLAIN], sizeof ps_mode.entry) == 0);
}

FRESH_TEST(profiling_is_plain) {
    engine_config.profile = true;
    check_mode(PS_MODE_PLAIN);
    CHECK_EQ(ps_demand_now(), PS_DEMAND_FILE);
}

FRESH_TEST(without_memory_for_a_profile_there_is_none) {
    engine_config.profile = true;
    fake_os_fail_from(1);
    ps_engine_start();
    CHECK_EQ(ps_demand_now(), 0);
}

FRESH_TEST(every_row_is_complete) {
    for (size_t i = 0; i < PS_MODE_COUNT; i++) {
        void *const *functions = (void *const *)&ps_mode_entries[i];
        for (size_t j = 0; j < sizeof ps_mode_entries[i] / sizeof *functions; j++) {
            CHECK(functions[j] != NULL);
        }
        const struct ps_mode_hook *hook = &ps_mode_hooks[i];
        functions = (void *const *)&hook->start;
        size_t count = (sizeof *hook - offsetof(struct ps_mode_hook, start)) / sizeof *functions;
        for (size_t j = 0; j < count; j++) {
            bool may_be_null = &functions[j] == (void *const *)&hook->count_bytes ||
                               &functions[j] == (void *const *)&hook->sample ||
                               &functions[j] == (void *const *)&hook->sample_large ||
                               &functions[j] == (void *const *)&hook->end_sample ||
                               &functions[j] == (void *const *)&hook->end_partition ||
                               &functions[j] == (void *const *)&hook->fork_blocks;
            CHECK(functions[j] != NULL || may_be_null);
        }
    }
}

/* Ends by SIGSEGV when the write is refused. */
static int signal_of_write(void *at) {
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)at = 1;
        _exit(0);
    }
    close(child.stderr_fd);
    int status = 0;
    waitpid(child.pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

FRESH_TEST(nothing_can_be_written_to_the_mode_after_the_start) {
    CHECK_EQ(signal_of_write(&ps_mode), 0);
    ps_engine_start();
    CHECK_EQ(signal_of_write(&ps_mode), SIGSEGV);
    CHECK_EQ(signal_of_write(&ps_mode.hook.fork_child), SIGSEGV);
    /* Nothing else is on that page. */
    CHECK_EQ((uintptr_t)&ps_mode % PS_PAGE_BYTES_LIMIT, 0);
    CHECK_EQ(sizeof ps_mode % PS_PAGE_BYTES_LIMIT, 0);
}

UNIT_MAIN
