/* SPDX-License-Identifier: MIT */
/* Last words: the message is API, so it is compared to the letter. */
#include "pools/engine/os/fatal.h"

#include "pools/engine/base/compiler.h"
#include "tests/unit/unit.h"

static const void *address_of(uintptr_t value) { return (const void *)value; }

TEST(fatal_names_misuse_and_address_and_aborts) {
    CHECK_ABORTS(ps_fatal_address("free of foreign pointer", address_of(0x123abc)),
                 "poolshim: free of foreign pointer 0x123abc\n");
}

TEST(every_width_of_an_address_is_printed_without_leading_zeroes) {
    CHECK_ABORTS(ps_fatal_address("x", address_of(0)), "poolshim: x 0x0\n");
    CHECK_ABORTS(ps_fatal_address("x", address_of(0xf)), "poolshim: x 0xf\n");
    CHECK_ABORTS(ps_fatal_address("x", address_of(0x10)), "poolshim: x 0x10\n");
    CHECK_ABORTS(ps_fatal_address("x", address_of(0xfedcba9876543210u)),
                 "poolshim: x 0xfedcba9876543210\n");
    CHECK_ABORTS(ps_fatal_address("x", address_of(UINTPTR_MAX)),
                 "poolshim: x 0xffffffffffffffff\n");
}

/* What the statement writes to stderr, as a string in `output`. */
#define CAPTURE(output, statement)                                                                 \
    do {                                                                                           \
        struct unit_child child_ = unit_child_start();                                             \
        if (child_.pid == 0) {                                                                     \
            statement;                                                                             \
            _exit(7);                                                                              \
        }                                                                                          \
        size_t length_ = 0;                                                                        \
        ssize_t got_;                                                                              \
        while ((got_ = read(child_.stderr_fd, (output) + length_, sizeof(output) - 1 - length_)) > \
               0) {                                                                                \
            length_ += (size_t)got_;                                                               \
        }                                                                                          \
        (output)[length_] = '\0';                                                                  \
        close(child_.stderr_fd);                                                                   \
        int status_ = 0;                                                                           \
        waitpid(child_.pid, &status_, 0);                                                          \
        CHECK(WIFEXITED(status_) && WEXITSTATUS(status_) == 7);                                    \
    } while (0)

TEST(report_prints_the_same_line_and_goes_on) {
    char output[256];
    CAPTURE(output, ps_report_address("size of foreign pointer", address_of(0x7000)));
    CHECK_STR_EQ(output, "poolshim: size of foreign pointer 0x7000\n");
}

TEST(a_text_that_is_too_long_is_cut_but_never_its_address) {
    GIVEN("a text longer than any line");
    static char text[1000];
    memset(text, 'a', sizeof text - 1);
    char output[2000];
    WHEN("it is reported");
    CAPTURE(output, ps_report_address(text, address_of(UINTPTR_MAX)));
    THEN("one line of at most 160 bytes ends with the whole address");
    size_t length = strlen(output);
    const char tail[] = "a 0xffffffffffffffff\n";
    CHECK_CMP(length, <=, 160);
    REQUIRE(length > sizeof tail);
    CHECK_STR_EQ(output + length - (sizeof tail - 1), tail);
    CHECK(strncmp(output, "poolshim: aaaa", 14) == 0);
}

TEST(failed_check_prints_its_text_and_aborts) {
    CHECK_ABORTS(ps_check_failed("poolshim: check failed: some condition\n"),
                 "poolshim: check failed: some condition\n");
}

TEST(check_aborts_in_checked_builds_only) {
    if (PS_CHECKED) {
        CHECK_ABORTS(PS_CHECK(1 + 1 == 3), "poolshim: check failed: 1 + 1 == 3\n");
    } else {
        PS_CHECK(1 + 1 == 3);
    }
    PS_CHECK(1 + 1 == 2);
}

UNIT_MAIN
