// sources: shim/config.c shim/config_number.c shim/config_value.c shim/config_report.c
// sources: shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * The sources of settings and their precedence: variables, the packed variable, duplicates,
 * contradictions, privileged programs, the file that replaces the array; and the listings.
 */
#include "tests/unit/shim/config_reading.h"

TEST(conf_sets_several_options_and_lists_need_no_quotes) {
    READ((char *)"POOLSHIM_CONF=huge:thp,size_classes:16,32,48,PURGE_DELAY_MS:5, verbose : off,");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(messages.text, "");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "thp");
    CHECK_STR_EQ(in_force(PS_OPTION_SIZE_CLASSES), "16,32,48");
    CHECK_STR_EQ(in_force(PS_OPTION_PURGE_DELAY_MS), "5");
    CHECK_EQ(settings.origins[PS_OPTION_HUGE], PS_ORIGIN_CONF);
    CHECK_EQ(settings.origins[PS_OPTION_MMAP_MIN], PS_ORIGIN_DEFAULT);
}

TEST(conf_takes_file_names_with_commas_and_colons) {
    READ((char *)"POOLSHIM_CONF=stats:/tmp/a,b/c:d,huge:off");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(settings.stats_path, "/tmp/a,b/c:d");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
}

TEST(a_bare_word_in_conf_spoils_only_itself) {
    READ((char *)"POOLSHIM_CONF=strict:1,thp,,cache_max:1M,2M");
    CHECK_STR_EQ(messages.text, "poolshim: POOLSHIM_CONF: \"thp\" is not name:value, ignored\n"
                                "poolshim: POOLSHIM_CONF: \"2M\" is not name:value, ignored\n");
    CHECK(settings.strict);
    CHECK_STR_EQ(in_force(PS_OPTION_CACHE_MAX), "1MiB");
    READ((char *)"POOLSHIM_CONF=size_clases:16,32,48,strict:1");
    CHECK_EQ(faults, 1);
    CHECK(settings.strict);
}

TEST(the_specific_variable_wins_in_either_order) {
    READ((char *)"POOLSHIM_CONF=huge:thp", (char *)"POOLSHIM_HUGE=off");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    READ((char *)"POOLSHIM_HUGE=off", (char *)"POOLSHIM_CONF=huge:thp");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    CHECK_EQ(settings.origins[PS_OPTION_HUGE], PS_ORIGIN_VARIABLE);
    WHEN("the specific one is wrong");
    READ((char *)"POOLSHIM_HUGE=nevr", (char *)"POOLSHIM_CONF=huge:thp");
    THEN("the packed one remains in force");
    CHECK_STR_EQ(messages.text, "poolshim: POOLSHIM_HUGE: \"nevr\" is not one of auto, thp, off, "
                                "hugetlb; using thp\n");
    WHEN("the specific one is empty");
    READ((char *)"POOLSHIM_HUGE=", (char *)"POOLSHIM_CONF=huge:thp");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "thp");
}

TEST(the_former_name_of_huge_is_translated_and_loses_in_either_order) {
    static const char *const now[][3] = {
        {"POOLSHIM_THP=always", "thp", "poolshim: POOLSHIM_THP: is POOLSHIM_HUGE=thp now;"},
        {"POOLSHIM_THP=Never", "off", "poolshim: POOLSHIM_THP: is POOLSHIM_HUGE=off now;"},
        {"POOLSHIM_THP=auto", "auto", "poolshim: POOLSHIM_THP: is POOLSHIM_HUGE=auto now;"},
        {"POOLSHIM_CONF=thp:never", "off",
         "poolshim: POOLSHIM_CONF: thp: is POOLSHIM_HUGE=off now;"},
    };
    for (size_t i = 0; i < sizeof now / sizeof now[0]; i++) {
        READ((char *)now[i][0]);
        CHECK_EQ(faults, 0);
        CHECK_STR_EQ(in_force(PS_OPTION_HUGE), now[i][1]);
        CHECK(strncmp(messages.text, now[i][2], strlen(now[i][2])) == 0);
        CHECK(strchr(messages.text, '\n') == strrchr(messages.text, '\n'));
    }
    READ((char *)"POOLSHIM_THP=never", (char *)"POOLSHIM_HUGE=thp");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "thp");
    READ((char *)"POOLSHIM_HUGE=thp", (char *)"POOLSHIM_THP=never");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "thp");
    WHEN("it is there more than once");
    READ((char *)"POOLSHIM_THP=never", (char *)"POOLSHIM_CONF=thp:auto,thp:always");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    CHECK(strchr(messages.text, '\n') == strrchr(messages.text, '\n'));
    READ((char *)"POOLSHIM_THP=", (char *)"POOLSHIM_CONF=huge:off");
    CHECK_STR_EQ(messages.text, "");
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    READ((char *)"POOLSHIM_THP=off");
    CHECK_EQ(faults, 1);
    CHECK_STR_EQ(messages.text, "poolshim: POOLSHIM_HUGE: \"off\" is not a value of its former "
                                "name, THP; using auto\n");
}

TEST(level_3_has_samples_unless_a_rate_is_set) {
    READ((char *)"POOLSHIM_HARDEN=3");
    CHECK_STR_EQ(in_force(PS_OPTION_GUARD_SAMPLE), "1000");
    READ((char *)"POOLSHIM_HARDEN=3", (char *)"POOLSHIM_GUARD_SAMPLE=0");
    CHECK_STR_EQ(in_force(PS_OPTION_GUARD_SAMPLE), "0");
    READ((char *)"POOLSHIM_CONF=harden:3,guard_sample:0");
    CHECK_STR_EQ(in_force(PS_OPTION_GUARD_SAMPLE), "0");
    READ((char *)"POOLSHIM_HARDEN=3", (char *)"POOLSHIM_GUARD_SAMPLE=7");
    CHECK_STR_EQ(in_force(PS_OPTION_GUARD_SAMPLE), "7");
    READ((char *)"POOLSHIM_HARDEN=2");
    CHECK_STR_EQ(in_force(PS_OPTION_GUARD_SAMPLE), "0");
}

TEST(of_duplicates_the_first_variable_and_the_last_pair_count) {
    READ((char *)"POOLSHIM_HUGE=off", (char *)"POOLSHIM_HUGE=bogus");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    READ((char *)"POOLSHIM_CONF=huge:off,huge:thp");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "thp");
}

TEST(faults_in_conf_name_the_place) {
    READ((char *)"POOLSHIM_CONF=bare,hgue:thp,huge:yes,conf:x,small_max:2K");
    CHECK_STR_EQ(messages.text,
                 "poolshim: POOLSHIM_CONF: \"bare\" is not name:value, ignored\n"
                 "poolshim: POOLSHIM_CONF: hgue: no such option, ignored; the nearest is huge\n"
                 "poolshim: POOLSHIM_CONF: huge: \"yes\" is not one of auto, thp, off, hugetlb; "
                 "using auto\n"
                 "poolshim: POOLSHIM_CONF: conf: no such option, ignored; the nearest is huge\n");
    CHECK_EQ(faults, 4);
    CHECK_STR_EQ(in_force(PS_OPTION_SMALL_MAX), "2KiB");
}

TEST(small_max_below_the_class_table_is_a_contradiction) {
    READ((char *)"POOLSHIM_SMALL_MAX=2K", (char *)"POOLSHIM_SIZE_CLASSES=16,4096");
    CHECK_EQ(faults, 1);
    CHECK_STR_EQ(messages.text, "poolshim: POOLSHIM_SMALL_MAX: 2KiB is below 4KiB, the last entry "
                                "of POOLSHIM_SIZE_CLASSES; using built-in\n");
    CHECK_EQ(settings.engine.small_max_bytes, 0);
    CHECK_EQ(settings.engine.class_count, 2);
    READ((char *)"POOLSHIM_SMALL_MAX=4K", (char *)"POOLSHIM_SIZE_CLASSES=16,4096");
    CHECK_EQ(faults, 0);
    CHECK_EQ(settings.engine.small_max_bytes, 4096);
}

TEST(a_privileged_program_ignores_everything_and_says_so_once) {
    char *environment[] = {(char *)"POOLSHIM_HUGE=off", (char *)"POOLSHIM_XYZ=1",
                           (char *)"POOLSHIM_VERBOSE=1", (char *)"POOLSHIM_STRICT=1", NULL};
    capture_start(&messages);
    struct ps_config_input input = {
        .environment = environment, .is_secure = true, .message_fd = messages.fd};
    CHECK_EQ(ps_config_read(&settings, &input), 0);
    CHECK_STR_EQ(capture_end(&messages), "poolshim: privileged program, POOLSHIM_* is ignored\n");
    CHECK(!settings.strict && !settings.verbose);
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "auto");
    GIVEN("no variable of ours");
    input.environment = environment + 4;
    capture_start(&messages);
    input.message_fd = messages.fd;
    CHECK_EQ(ps_config_read(&settings, &input), 0);
    CHECK_STR_EQ(capture_end(&messages), "");
}

TEST(without_an_array_the_file_is_read_and_long_entries_are_refused) {
    static char content[30000];
    size_t length = 0;
    length += (size_t)sprintf(content, "POOLSHIM_HUGE=off") + 1;
    length += (size_t)sprintf(content + length, "POOLSHIM_STATS=%09000d", 0) + 1;
    length += (size_t)sprintf(content + length, "OTHER=%09000d", 0) + 1;
    length += (size_t)sprintf(content + length, "POOLSHIM_CONF=foreign:warn,huge:thp") + 1;
    char path[] = "/tmp/poolshim-config-test.XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content, length) == (ssize_t)length);
    capture_start(&messages);
    struct ps_config_input input = {.environment_file = path, .message_fd = messages.fd};
    CHECK_EQ(ps_config_read(&settings, &input), 1);
    capture_end(&messages);
    close(fd);
    unlink(path);
    CHECK_EQ(capture_lines(&messages), 1);
    CHECK(strstr(messages.text, "poolshim: POOLSHIM_STATS: \"000000000") == messages.text);
    CHECK(strstr(messages.text, "...\" is too long; using off\n") != NULL);
    CHECK_STR_EQ(in_force(PS_OPTION_HUGE), "off");
    CHECK_STR_EQ(in_force(PS_OPTION_FOREIGN), "warn");
}

TEST(verbose_lists_every_option_with_value_and_origin) {
    READ((char *)"POOLSHIM_VERBOSE=1", (char *)"POOLSHIM_CONF=huge:off",
         (char *)"POOLSHIM_SIZE_CLASSES=16,32,48,64,80,96,112,128,144");
    CHECK_EQ(faults, 0);
    CHECK_EQ(capture_lines(&messages), PS_OPTION_COUNT); /* CONF is not listed, a title is */
    CHECK(strstr(messages.text, "HUGE              off                      (POOLSHIM_CONF)\n"));
    CHECK(strstr(messages.text, "MMAP_MIN          32MiB                    (default)\n"));
    CHECK(strstr(messages.text, "VERBOSE           on                       (environment)\n"));
    CHECK(strstr(messages.text, "SIZE_CLASSES      16,32,48,64,80,96,112,128,144 (environment)\n"));
}

TEST(help_shows_every_option_within_80_columns) {
    READ((char *)"POOLSHIM_HELP=1");
    CHECK_EQ(faults, 0);
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        char title[64];
        snprintf(title, sizeof title, "\n  POOLSHIM_%s=<", ps_options[i].name);
        CHECK(strstr(messages.text, title) != NULL);
    }
    for (const char *line = messages.text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        CHECK_CMP(strcspn(line, "\n"), <=, 80);
    }
}

UNIT_MAIN
