/* SPDX-License-Identifier: MIT */
/*
 * The switch PS_DEBUG, the line that misuse prints, and what marks do where somebody looks.
 */
#include "pools/common/debug.h"

#include "tests/unit/fresh.h"

struct reading {
    const char *value; /* of PS_DEBUG; NULL: not set */
    bool is_malloc;
    bool is_check;
};

static struct reading reading;

/* PS_DEBUG is read once in a process: each value needs its own. */
static void read_switches(void) {
    if (reading.value != NULL) {
        setenv("PS_DEBUG", reading.value, 1);
    } else {
        unsetenv("PS_DEBUG");
    }
    CHECK_EQ(ps_debug_is_malloc(), reading.is_malloc);
    CHECK_EQ(ps_debug_is_check(),
             reading.is_check || PS_CHECKED || (ps_poison_is_memcheck && !reading.is_malloc));
    setenv("PS_DEBUG", "malloc,check", 1);
    CHECK_EQ(ps_debug_is_malloc(), reading.is_malloc);
}

TEST(switches_are_words_between_commas) {
    static const struct reading readings[] = {
        {NULL, false, false},      {"", false, false},           {"malloc", true, false},
        {"check", false, true},    {"malloc,check", true, true}, {"check,malloc", true, true},
        {"mallocs", false, false}, {"xcheck", false, false},     {"check ,malloc", true, false},
        {",,check", false, true},  {"other,check", false, true}, {"malloc,", true, false},
    };
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        reading = readings[i];
        fresh_run(read_switches);
    }
}

TEST(misuse_prints_one_line_and_aborts) {
    CHECK_ABORTS(ps_debug_misuse("double free of", (void *)0x1230, "table"),
                 "poolshim: double free of 0x1230 in table\n");
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK_ABORTS(ps_debug_misuse("foreign pointer", NULL, name), "poolshim: foreign pointer");
}

TEST(marks_may_be_made_on_any_memory) {
    static char memory[4096] __attribute__((aligned(64)));
    ps_poison(memory, sizeof memory);
    ps_unpoison_defined(memory, 64);
    memory[63] = 1;
    CHECK_EQ(memory[63], 1);
    ps_unpoison(memory, sizeof memory);
    memory[4095] = 1;
    ps_poison(memory, 0);
    CHECK_EQ(memory[4095], 1);
}

#if defined(__SANITIZE_ADDRESS__)
__attribute__((noinline)) static void touch(volatile char *address) { *address = 1; }

TEST(address_sanitizer_sees_a_mark) {
    static char memory[4096] __attribute__((aligned(64)));
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        ps_poison(memory, sizeof memory);
        touch(memory + 100);
        _exit(0);
    }
    char output[4096] = "";
    size_t length = 0;
    ssize_t got;
    while ((got = read(child.stderr_fd, output + length, sizeof output - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(child.stderr_fd);
    waitpid(child.pid, NULL, 0);
    CHECK(strstr(output, "use-after-poison") != NULL);
}
#endif

UNIT_MAIN
