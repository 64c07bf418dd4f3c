// sources: shim/stats.c shim/stats_table.c shim/stats_heaps.c shim/stats_json.c
// sources: shim/stats_live.c
// sources: shim/exit_output.c shim/report_open.c
// libc: glibc
// sources: shim/process.c shim/config.c shim/config_process.c shim/config_number.c
// sources: shim/config_value.c shim/config_report.c shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * A report of a known census, in both formats; and writing it to every kind of file there is.
 */
#include "shim/stats.h"
#include "tests/unit/shim/capture.h"
#include "tests/unit/shim/fake_census.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static struct capture capture;
static struct ps_report report;
static char directory[64];

static const char *print(void (*printer)(const struct ps_report *, struct ps_text *)) {
    char buffer[64]; /* small, so that every line is put together from pieces */
    struct ps_text text;
    capture_start(&capture);
    ps_text_start(&text, buffer, sizeof buffer, capture.fd);
    printer(&report, &text);
    CHECK(ps_text_flush(&text));
    return capture_end(&capture);
}

static void take(void) {
    fake_census_fill();
    ps_report_take(&report);
}

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* The text of a file in the test's directory; "" when there is none. */
static const char *content_of(const char *name) {
    static char text[CAPTURE_BYTES];
    int fd = open(path_of(name), O_RDONLY);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[length] = '\0';
    close(fd);
    return text;
}

static size_t entry_count(void) {
    size_t count = 0;
    DIR *stream = opendir(directory);
    REQUIRE(stream != NULL);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(stream);
    return count;
}

TEST(sums_follow_the_equations_of_the_report) {
    take();
    CHECK_EQ(report.live_bytes, 16480 + 300000 + 9000000);
    CHECK_EQ(report.small_live_blocks, 1010);
    CHECK_EQ(report.small_slabs, 3);
    CHECK_EQ(report.small_waste_bytes + report.census.small_live_bytes,
             report.census.small_slab_bytes);
    CHECK_EQ(report.pid, getpid());
    CHECK(report.process.has_resident && report.process.resident_bytes > 4096);
    CHECK(report.process.has_resident_peak);
    CHECK_CMP(report.process.resident_peak_bytes, >, 4096);
}

TEST(waste_is_never_negative) {
    GIVEN("a snapshot that caught a block before its span");
    const struct ps_census_class class = {.block_bytes = 64, .live_blocks = 5};
    CHECK_EQ(ps_report_class_waste(&class), 0);
}

TEST(the_table_shows_every_figure_with_its_unit) {
    take();
    const char *table = print(ps_report_print_table);
    static const char *const lines[] = {
        "\nmemory\n",
        "\n  mapped by the heap                  20000000 bytes      19.0 MiB\n",
        "\n  live                                 9316480 bytes       8.8 MiB\n",
        "\ncalls\n",
        "\n  of malloc                              40000\n",
        "\n  of free                                38985\n",
        "\nsmall blocks\n",
        "\n  of live: rounding, about                1234 bytes       1.2 KiB\n",
        "\n  live blocks                             1010\n",
        "\npage runs\n",
        "\n  live runs                                  3\n",
        "\nlarge blocks\n",
        "\n  cached mappings                            4\n",
        "\npage cache\n",
        "\n  free, resident                        400000 bytes     390.6 KiB\n",
        "\n  free, not resident                    500000 bytes     488.2 KiB\n",
        "\npurges\n",
        "\n  calls                                      5\n",
        "\n block bytes   live blocks      live bytes    slabs      slab bytes     waste bytes  "
        "waste %\n",
        "\n          16          1000           16000        1           65536           49536     "
        "75.5\n",
        "\n          48            10             480        2          131072          130592     "
        "99.6\n",
        "\n         all          1010           16480        3          196608          180128     "
        "91.6\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strstr(table, lines[i]) == NULL) {
            unit_fail(__FILE__, __LINE__, "the table lacks this line:%s%s", lines[i], table);
        }
    }
    THEN("a class without spans is left out");
    CHECK(strstr(table, "\n          64 ") == NULL);
}

TEST(what_the_kernel_does_not_report_is_unknown_and_null) {
    take();
    ps_process_memory_read(&report.process, "/nonexistent");
    const char *unknown = "\n  resident, whole process              unknown\n";
    CHECK(strstr(print(ps_report_print_table), unknown) != NULL);
    CHECK(strstr(print(ps_report_print_json), "\"resident_bytes\": null,\n") != NULL);
}

static void put_line(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

TEST(the_systems_figures_are_in_bytes_and_statm_is_the_last_resort) {
    char path[128];
    struct ps_process_memory memory;
    GIVEN("a /proc without smaps_rollup");
    snprintf(path, sizeof path, "%s/statm", directory);
    put_line(path, "900 123 45 6 0 78 0\n");
    ps_process_memory_read(&memory, directory);
    CHECK(memory.has_resident);
    CHECK_EQ(memory.resident_bytes, 123 * sysconf(_SC_PAGESIZE));
    CHECK(!memory.has_huge && !memory.has_resident_peak);
    WHEN("it has one");
    snprintf(path, sizeof path, "%s/smaps_rollup", directory);
    put_line(path, "Rss:      4711 kB\nPss:  1 kB\nAnonHugePages:   2048 kB\n");
    ps_process_memory_read(&memory, directory);
    CHECK(memory.has_resident && memory.has_huge);
    CHECK_EQ(memory.resident_bytes, 4711 * 1024);
    CHECK_EQ(memory.huge_bytes, 2048 * 1024);
    unlink(path);
    snprintf(path, sizeof path, "%s/statm", directory);
    unlink(path);
}

TEST(json_has_every_row_under_its_key) {
    take();
    const char *json = print(ps_report_print_json);
    for (size_t i = 0; i < ps_report_row_count; i++) {
        const struct ps_report_row *row = &ps_report_rows[i];
        char section[64];
        char member[128];
        snprintf(section, sizeof section, "\n  \"%s\": {", row->section);
        if (row->unit == PS_UNIT_WORD) {
            snprintf(member, sizeof member, "\n    \"%s\": \"%s\"", row->key,
                     ps_report_word(&report, row));
        } else {
            snprintf(member, sizeof member, "\n    \"%s\": %ju", row->key,
                     (uintmax_t)ps_report_value(&report, row));
        }
        const char *found = strstr(json, section);
        CHECK(found != NULL && strstr(found, member) != NULL);
    }
    CHECK(strstr(json, "    {\"block_bytes\": 48, \"live_count\": 10, \"live_bytes\": 480, "
                       "\"slab_count\": 2, \"slab_bytes\": 131072, \"waste_bytes\": 130592},\n"));
}

TEST(json_escapes_the_program_name) {
    take();
    report.program = "a\"b\\c\n\xc3\xa4";
    CHECK(strstr(print(ps_report_print_json), "\"program\": \"a\\\"b\\\\c\?\?\?\",\n") != NULL);
}

TEST(a_file_is_named_by_pattern_and_its_suffix_chooses_the_format) {
    char wanted[64];
    CHECK_EQ(ps_stats_write_file(path_of("a%p-%%-%x.txt"), NULL), 0);
    snprintf(wanted, sizeof wanted, "a%d-%%-%%x.txt", (int)getpid());
    CHECK(strncmp(content_of(wanted), "poolshim ", 9) == 0);
    unlink(path_of(wanted));
    CHECK_EQ(ps_stats_write_file("b.json", directory), 0);
    CHECK(strncmp(content_of("b.json"), "{\n  \"format\": 2,\n", 17) == 0);
    unlink(path_of("b.json"));
    THEN("no temporary file is left");
    CHECK_EQ(entry_count(), 0);
}

TEST(a_regular_file_is_replaced_and_a_left_over_temporary_one_is_no_obstacle) {
    char name[64];
    snprintf(name, sizeof name, ".poolshim-stats.%d", (int)gettid());
    close(open(path_of(name), O_WRONLY | O_CREAT, 0400));
    int fd = open(path_of("a"), O_RDWR | O_CREAT, 0600);
    REQUIRE(write(fd, "old", 3) == 3);
    CHECK_EQ(ps_stats_write_file("a", directory), 0);
    CHECK(strncmp(content_of("a"), "poolshim ", 9) == 0);
    THEN("a reader that had the old one open still sees it whole");
    char old[8] = "";
    CHECK_EQ(pread(fd, old, sizeof old, 0), 3);
    close(fd);
    unlink(path_of("a"));
    CHECK_EQ(entry_count(), 0);
}

TEST(a_link_is_written_through) {
    char target[128];
    snprintf(target, sizeof target, "%s", path_of("target"));
    close(open(target, O_WRONLY | O_CREAT, 0600));
    REQUIRE(symlink(target, path_of("link")) == 0);
    CHECK_EQ(ps_stats_write_file("link", directory), 0);
    CHECK_EQ(ps_stats_write_file("link", directory), 0);
    struct stat status;
    CHECK_EQ(lstat(path_of("link"), &status), 0);
    CHECK(S_ISLNK(status.st_mode));
    const char *text = content_of("target");
    CHECK(strncmp(text, "poolshim ", 9) == 0);
    THEN("the second report replaced the first");
    CHECK(strstr(text + 9, "poolshim ") == NULL);
    unlink(path_of("link"));
    unlink(target);
}

TEST(a_device_stays_a_device) {
    struct stat before;
    struct stat after;
    CHECK_EQ(stat("/dev/null", &before), 0);
    CHECK_EQ(ps_stats_write_file("/dev/null", NULL), 0);
    CHECK_EQ(stat("/dev/null", &after), 0);
    CHECK_EQ(after.st_ino, before.st_ino);
    CHECK(S_ISCHR(after.st_mode));
    CHECK_EQ(ps_stats_write_file("/dev/full", NULL), ENOSPC);
}

TEST(a_link_to_the_programs_own_output_is_appended_to) {
    capture_start(&capture);
    REQUIRE(write(capture.fd, "mine\n", 5) == 5);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", capture.fd);
    CHECK_EQ(ps_stats_write_file(path, NULL), 0);
    CHECK(strncmp(capture_end(&capture), "mine\npoolshim ", 14) == 0);
}

TEST(a_pipe_without_a_reader_is_an_error_and_no_hang) {
    REQUIRE(mkfifo(path_of("fifo"), 0600) == 0);
    CHECK_EQ(ps_stats_write_file("fifo", directory), ENXIO);
    unlink(path_of("fifo"));
}

TEST(names_that_cannot_be_written_say_why_and_leave_nothing) {
    static char name[5000];
    CHECK_EQ(ps_stats_write_file(path_of("no/such/file"), NULL), ENOENT);
    CHECK_EQ(ps_stats_write_file(path_of(""), NULL), EISDIR);
    CHECK_EQ(ps_stats_write_file("..", directory), EISDIR);
    memset(name, 'n', sizeof name - 1);
    CHECK_EQ(ps_stats_write_file(name, NULL), ENAMETOOLONG);
    name[300] = '\0';
    CHECK_EQ(ps_stats_write_file(name, directory), ENAMETOOLONG);
    CHECK_EQ(entry_count(), 0);
}

int main(int argc, char **argv) {
    snprintf(directory, sizeof directory, "/tmp/poolshim-stats-test.XXXXXX");
    REQUIRE(mkdtemp(directory) != NULL);
    int status = unit_main(argc, argv);
    rmdir(directory);
    return status;
}
