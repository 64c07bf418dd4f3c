// sources: shim/text.c
/* SPDX-License-Identifier: MIT */
/* Formatting without stdio: exact output, the edges of the buffer, and descriptors that fail. */
#include "shim/text.h"
#include "tests/unit/shim/capture.h"

#include <errno.h>
#include <fcntl.h>

static char out[4096];
static struct ps_text text;

static void start(size_t capacity) {
    memset(out, '#', sizeof out);
    ps_text_start(&text, out, capacity, PS_TEXT_TO_BUFFER);
}

static const char *result(void) {
    out[text.length] = '\0';
    return out;
}

TEST(numbers_are_decimal_up_to_the_largest) {
    static const struct {
        uint64_t value;
        const char *wanted;
    } cases[] = {{0, "0"}, {9, "9"}, {10, "10"}, {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(100);
        ps_text_add_number(&text, cases[i].value);
        CHECK_STR_EQ(result(), cases[i].wanted);
    }
}

TEST(sizes_print_in_the_largest_unit_that_is_exact) {
    static const struct {
        uint64_t value;
        const char *wanted;
    } cases[] = {{0, "0"},
                 {1023, "1023"},
                 {1024, "1KiB"},
                 {1025, "1025"},
                 {(uint64_t)4 << 20, "4MiB"},
                 {(uint64_t)3 << 29, "1536MiB"},
                 {(uint64_t)1 << 30, "1GiB"},
                 {(uint64_t)1 << 50, "1048576GiB"},
                 {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(100);
        ps_text_add_size(&text, cases[i].value);
        CHECK_STR_EQ(result(), cases[i].wanted);
    }
}

TEST(rounded_sizes_never_round_up) {
    static const struct {
        uint64_t value;
        const char *wanted;
    } cases[] = {{0, "     0 B"},    {1023, "  1023 B"},      {1024, " 1.0 KiB"},
                 {1535, " 1.4 KiB"}, {1048575, "1023.9 KiB"}, {(uint64_t)1 << 40, "1024.0 GiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(100);
        ps_text_add_rounded_size(&text, cases[i].value, 8);
        CHECK_STR_EQ(result(), cases[i].wanted);
    }
}

TEST(percent_survives_zero_and_huge_values) {
    static const struct {
        uint64_t part;
        uint64_t whole;
        const char *wanted;
    } cases[] = {{0, 0, "0.0"},
                 {1, 3, "33.3"},
                 {7, 7, "100.0"},
                 {UINT64_MAX, UINT64_MAX, "100.0"},
                 {UINT64_MAX / 2, UINT64_MAX, "50.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(100);
        ps_text_add_percent(&text, cases[i].part, cases[i].whole, 3);
        CHECK_STR_EQ(result(), cases[i].wanted);
    }
}

TEST(columns_pad_and_never_cut) {
    start(100);
    ps_text_add_left(&text, "ab", 4);
    ps_text_add(&text, "|");
    ps_text_add_right(&text, "cd", 4);
    ps_text_add(&text, "|");
    ps_text_add_number_right(&text, 123456, 4);
    CHECK_STR_EQ(result(), "ab  |  cd|123456");
}

TEST(quoting_hides_control_bytes_and_cuts_long_values) {
    char value[100];
    memset(value, 'x', sizeof value);
    value[0] = '\n';
    value[1] = '"';
    value[2] = '\x1b';
    value[3] = '\xff';
    start(200);
    ps_text_add_quoted(&text, (struct ps_str){.data = value, .length = 64});
    CHECK_EQ(text.length, 66);
    CHECK(strncmp(result(), "\"????xxxx", 9) == 0);
    start(200);
    ps_text_add_quoted(&text, (struct ps_str){.data = value, .length = 65});
    CHECK_EQ(text.length, 69);
    CHECK_STR_EQ(result() + 65, "...\"");
}

TEST(text_beyond_a_buffer_is_dropped_and_remembered) {
    start(5);
    ps_text_add(&text, "abc");
    CHECK(!text.has_failed);
    ps_text_add(&text, "defg");
    CHECK(text.has_failed);
    CHECK_EQ(text.length, 5);
    CHECK(memcmp(out, "abcde#", 6) == 0);
    CHECK(!ps_text_flush(&text));
}

TEST(a_small_buffer_passes_any_amount_of_text_to_a_descriptor) {
    static struct capture capture;
    static char wanted[20001];
    capture_start(&capture);
    ps_text_start(&text, out, 7, capture.fd);
    for (size_t i = 0; i < 4000; i++) {
        ps_text_add(&text, "12345");
        memcpy(wanted + i * 5, "12345", 5);
    }
    CHECK(ps_text_flush(&text));
    CHECK_STR_EQ(capture_end(&capture), wanted);
}

TEST(a_closed_descriptor_is_an_error_and_no_endless_loop) {
    int fd = dup(1);
    close(fd);
    ps_text_start(&text, out, 4, fd);
    ps_text_add(&text, "0123456789");
    CHECK(!ps_text_flush(&text));
    CHECK_EQ(text.error, EBADF);
}

TEST(errno_is_left_alone) {
    int fd = dup(1);
    close(fd);
    errno = 1234;
    CHECK_EQ(ps_write_all(fd, "x", 1), EBADF);
    CHECK_EQ(errno, 1234);
}

TEST(a_full_pipe_that_does_not_block_is_waited_for) {
    int ends[2];
    REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
    size_t filled = 0;
    while (write(ends[1], out, 1024) > 0) {
        filled += 1024;
    }
    WHEN("a reader comes");
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        size_t got = 0;
        close(ends[1]);
        fcntl(ends[0], F_SETFL, 0);
        for (ssize_t part; (part = read(ends[0], out, sizeof out)) > 0;) {
            got += (size_t)part;
        }
        _exit(got == filled + sizeof out ? 0 : 1);
    }
    THEN("everything is written");
    CHECK_EQ(ps_write_all(ends[1], out, sizeof out), 0);
    close(ends[1]);
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

TEST(granules_trim_blanks_and_compare_without_case) {
    struct ps_str str = ps_str_trim(ps_str_of(" \t MiB\t"));
    CHECK_EQ(str.length, 3);
    CHECK(ps_str_equals(str, "MiB"));
    CHECK(!ps_str_equals(str, "Mi"));
    CHECK(!ps_str_equals(str, "mib"));
    CHECK(ps_str_equals_any_case(str, ps_str_of("mIb")));
    CHECK(!ps_str_equals_any_case(str, ps_str_of("mibs")));
    CHECK_EQ(ps_str_trim(ps_str_of("  ")).length, 0);
}

UNIT_MAIN
