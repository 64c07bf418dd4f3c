// sources: shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * Both readers of the environment: the array of a running process, and the file that replaces
 * it before libc is ready, at every buffer size.
 */
#include "shim/environment.h"
#include "tests/unit/again.h"
#include "tests/unit/shim/capture.h"

#include <errno.h>

struct log {
    char text[32768];
    size_t length;
    size_t count;
};

/* Writes "name=value;", with a '!' before a cut one, into the log. */
static void record(void *context, const struct ps_environment_entry *entry) {
    struct log *log = context;
    log->count++;
    int length = snprintf(log->text + log->length, sizeof log->text - log->length, "%s%.*s=%.*s;",
                          entry->is_cut ? "!" : "", (int)entry->name.length, entry->name.data,
                          (int)entry->value.length, entry->value.data);
    log->length += (size_t)length;
    REQUIRE(log->length < sizeof log->text);
}

static struct log from_array;
static struct log from_file;

static void visit_array(char *const *environment) {
    from_array = (struct log){.length = 0};
    ps_environment_visit_array(environment, record, &from_array);
}

/* The content as a file, read through a heap block of exactly `capacity` bytes, for ASan. */
static void visit_content(const char *content, size_t length, size_t capacity) {
    char path[64];
    int fd = memfd_create("environ", 0);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content, length) == (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    char *buffer = malloc(capacity);
    from_file = (struct log){.length = 0};
    CHECK(ps_environment_visit_file(path, buffer, capacity, record, &from_file));
    free(buffer);
    close(fd);
}

TEST(only_prefixed_names_with_a_value_are_visited) {
    char *environment[] = {(char *)"PATH=/bin",
                           (char *)"POOLSHIM_HUGE=auto",
                           (char *)"POOLSHIM_",
                           (char *)"POOLSHIM_=x",
                           (char *)"POOLSHIM_BARE",
                           (char *)"XPOOLSHIM_HUGE=off",
                           (char *)"poolshim_thp=",
                           (char *)"POOLSHIM_STATS=",
                           (char *)"POOLSHIM_CONF=a:b=c",
                           (char *)"POOLSHIM=1",
                           NULL};
    visit_array(environment);
    CHECK_STR_EQ(from_array.text, "HUGE=auto;STATS=;CONF=a:b=c;");
}

TEST(no_array_and_no_file_are_no_entries) {
    char buffer[16];
    visit_array(NULL);
    CHECK_EQ(from_array.count, 0);
    errno = 77;
    CHECK(!ps_environment_visit_file("/nonexistent/environ", buffer, sizeof buffer, record,
                                     &from_array));
    CHECK_EQ(from_array.count, 0);
    CHECK_EQ(errno, 77);
}

TEST(a_file_without_a_final_nul_counts_its_last_entry) {
    visit_content("POOLSHIM_A=1\0POOLSHIM_B=2", 25, 64);
    CHECK_STR_EQ(from_file.text, "A=1;B=2;");
    visit_content("", 0, 64);
    CHECK_EQ(from_file.count, 0);
}

TEST(an_entry_longer_than_the_buffer_is_cut_and_the_next_one_is_whole) {
    static const char content[] = "LONG=................................................\0"
                                  "POOLSHIM_A=0123456789012345678901234567890123456789\0"
                                  "POOLSHIM_B=2";
    visit_content(content, sizeof content, 20);
    CHECK_STR_EQ(from_file.text, "!A=012345678;B=2;");
}

TEST(an_entry_that_just_fits_is_whole) {
    static const char content[] = "POOLSHIM_A=12345\0POOLSHIM_B=67890";
    GIVEN("a buffer of the entry and its NUL");
    visit_content(content, sizeof content, 17);
    CHECK_STR_EQ(from_file.text, "A=12345;B=67890;");
    GIVEN("a buffer one byte smaller");
    visit_content(content, sizeof content, 16);
    CHECK_STR_EQ(from_file.text, "!A=12345;!B=67890;");
}

/* A random environment as array and as file; the file must give the same at any buffer size. */
TEST(file_and_array_agree_on_random_environments) {
    enum { ENTRIES = 12, BYTES = 60 };
    static char entries[ENTRIES][BYTES + 1];
    static const char alphabet[] = "POOLSHIM_=,:aT\x80";
    char *environment[ENTRIES + 1] = {NULL};
    for (int round = 0; round < 3000; round++) {
        static char content[ENTRIES * (BYTES + 1)];
        size_t length = 0;
        for (size_t i = 0; i < ENTRIES; i++) {
            size_t bytes = (size_t)(unit_random() % BYTES);
            size_t at = 0;
            if (unit_random() % 2 == 0) {
                memcpy(entries[i], "POOLSHIM_", 9);
                at = 9;
            }
            for (; at < bytes; at++) {
                entries[i][at] = alphabet[unit_random() % (sizeof alphabet - 1)];
            }
            entries[i][at] = '\0';
            environment[i] = entries[i];
            memcpy(content + length, entries[i], at + 1);
            length += at + 1;
        }
        visit_array(environment);
        visit_content(content, length, BYTES + 1 + (size_t)(unit_random() % 200));
        CHECK_STR_EQ(from_file.text, from_array.text);
    }
}

TEST(the_real_environment_file_reads_like_the_real_array) {
    GIVEN("a child with its own environment");
    char *arguments[] = {(char *)"again", (char *)"--in-child", NULL};
    char *environment[] = {(char *)"A=1", (char *)"POOLSHIM_STATS=x.%p.json",
                           (char *)"POOLSHIM_HUGE=off", NULL};
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        exec_again(arguments, environment);
        _exit(2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

static int in_child(void) {
    char buffer[64];
    ps_environment_visit_array(environ, record, &from_array);
    ps_environment_visit_file("/proc/self/environ", buffer, sizeof buffer, record, &from_file);
    CHECK_EQ(from_array.count, 2);
    CHECK_EQ(from_file.length, from_array.length); /* an emulator may turn the order round */
    CHECK(strstr(from_file.text, "STATS=x.%p.json;") && strstr(from_file.text, "HUGE=off;"));
    CHECK(strstr(from_array.text, "STATS=x.%p.json;") && strstr(from_array.text, "HUGE=off;"));
    return unit_failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--in-child") == 0) {
        return in_child();
    }
    return unit_main(argc, argv);
}
