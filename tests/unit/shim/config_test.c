// sources: shim/config.c shim/config_number.c shim/config_value.c shim/config_report.c
// sources: shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * What each option accepts and refuses, with the exact line on stderr.
 */
#include "tests/unit/shim/config_reading.h"

static const char *default_of(enum ps_option_index index) {
    static char buffer[64];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer - 1, PS_TEXT_TO_BUFFER);
    ps_value_print_default(&ps_options[index], &text);
    buffer[text.length] = '\0';
    return buffer;
}

TEST(defaults_are_in_force_where_nothing_is_set) {
    READ((char *)"HOME=/");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(messages.text, "");
    const struct ps_config engine = PS_CONFIG_DEFAULT;
    CHECK(memcmp(&settings.engine, &engine, sizeof engine) == 0);
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        CHECK_STR_EQ(in_force((enum ps_option_index)i), default_of((enum ps_option_index)i));
        CHECK_EQ(settings.origins[i], PS_ORIGIN_DEFAULT);
    }
}

TEST(every_default_is_accepted_as_a_value) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const char *value = default_of((enum ps_option_index)i);
        read_one(ps_options[i].name, strcmp(value, "built-in") == 0 ? "" : value);
        CHECK_EQ(faults, 0);
        CHECK_STR_EQ(messages.text, "");
        CHECK_STR_EQ(in_force((enum ps_option_index)i), value);
    }
}

TEST(ranges_of_the_table_are_those_of_the_engine) {
    static const char *const limits[] = {"SIZE_CLASSES", "SMALL_MAX"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", PS_CLASS_BYTES_LIMIT);
        read_one(limits[i], value);
        CHECK_EQ(faults, 0);
        snprintf(value, sizeof value, "%d", PS_CLASS_BYTES_LIMIT + 16);
        read_one(limits[i], value);
        CHECK_EQ(faults, 1);
        CHECK(strstr(messages.text, "is above the maximum, 64KiB") != NULL);
    }
}

struct good_value {
    enum ps_option_index option;
    const char *value;
    const char *wanted;
};

static void check_good_values(const struct good_value *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        read_one(ps_options[cases[i].option].name, cases[i].value);
        CHECK_EQ(faults, 0);
        CHECK_STR_EQ(messages.text, "");
        CHECK_STR_EQ(in_force(cases[i].option), cases[i].wanted);
    }
}

TEST(good_values_are_taken) {
    static const struct good_value cases[] = {
        {PS_OPTION_MMAP_MIN, "131072", "128KiB"},
        {PS_OPTION_MMAP_MIN, "128K", "128KiB"},
        {PS_OPTION_MMAP_MIN, "128k", "128KiB"},
        {PS_OPTION_MMAP_MIN, "128KiB", "128KiB"},
        {PS_OPTION_MMAP_MIN, "128kib", "128KiB"},
        {PS_OPTION_MMAP_MIN, "3M", "3MiB"},
        {PS_OPTION_MMAP_MIN, "1GiB", "1GiB"},
        {PS_OPTION_MMAP_MIN, " 1g\t", "1GiB"},
        {PS_OPTION_MMAP_MIN, "000131072", "128KiB"},
        {PS_OPTION_CACHE_MAX, "0", "0"},
        {PS_OPTION_CACHE_MAX, "18446744073709551615", "18446744073709551615"},
        {PS_OPTION_SMALL_MAX, "1K", "1KiB"},
        {PS_OPTION_LIMIT, "80%", "80%"},
        {PS_OPTION_LIMIT, " 100% ", "100%"},
        {PS_OPTION_LIMIT, "1%", "1%"},
        {PS_OPTION_LIMIT, "2GiB", "2GiB"},
        {PS_OPTION_LIMIT, "1048576", "1MiB"},
        {PS_OPTION_LIMIT, "Off", "off"},
        {PS_OPTION_LIMIT, "0", "off"},
        {PS_OPTION_PURGE_DELAY_MS, "0", "0"},
        {PS_OPTION_PURGE_DELAY_MS, "4294967295", "4294967295"},
        {PS_OPTION_PROFILE_EVERY, "60", "60"},
        {PS_OPTION_PROFILE_EVERY, "60s", "60"},
        {PS_OPTION_HUGE, "thp", "thp"},
        {PS_OPTION_HUGE, "OFF", "off"},
        {PS_OPTION_HUGE, "hugetlb", "hugetlb"},
        {PS_OPTION_HUGE, "HugeTLB:2M", "hugetlb:2MiB"},
        {PS_OPTION_HUGE, "hugetlb : 1GiB", "hugetlb:1GiB"},
        {PS_OPTION_FOREIGN, "warn", "warn"},
        {PS_OPTION_FOREIGN, "ignore", "ignore"},
        {PS_OPTION_STRICT, "1", "on"},
        {PS_OPTION_STRICT, "TRUE", "on"},
        {PS_OPTION_STRICT, "on", "on"},
        {PS_OPTION_STRICT, "0", "off"},
        {PS_OPTION_STRICT, "false", "off"},
        {PS_OPTION_STRICT, "Off", "off"},
        {PS_OPTION_STATS, "1", "on"},
        {PS_OPTION_STATS, "0", "off"},
        {PS_OPTION_STATS, "/tmp/%p.json", "/tmp/%p.json"},
        {PS_OPTION_STATS, "01", "01"},
        {PS_OPTION_SIZE_CLASSES, "8,16", "8,16"},
        {PS_OPTION_SIZE_CLASSES, "16, 48 ,4K,64KiB", "16,48,4096,65536"},
        {PS_OPTION_SIZE_CLASSES, "64", "64"},
        {PS_OPTION_HUGE, "", "auto"},
        {PS_OPTION_SIZE_CLASSES, "  ", "built-in"},
    };
    check_good_values(cases, sizeof cases / sizeof cases[0]);
}

TEST(units_and_fractions_are_taken) {
    static const struct good_value cases[] = {
        {PS_OPTION_MMAP_MIN, "1 M", "1MiB"},
        {PS_OPTION_MMAP_MIN, "1.5M", "1536KiB"},
        {PS_OPTION_MMAP_MIN, "4MB", "4000000"},
        {PS_OPTION_MMAP_MIN, "200kb", "200000"},
        {PS_OPTION_MMAP_MIN, "3Mi", "3MiB"},
        {PS_OPTION_CACHE_MAX, "17179869183.999999999G", "18446744073709551614"},
        {PS_OPTION_LIMIT, "512Mi", "512MiB"},
        {PS_OPTION_LIMIT, "512MB", "500000KiB"},
        {PS_OPTION_LIMIT, "0.5G", "512MiB"},
        {PS_OPTION_LIMIT, "0.123456789g", "132560717"},
        {PS_OPTION_LIMIT, "80.5%", "80%"},
        {PS_OPTION_LIMIT, "80 %", "80%"},
        {PS_OPTION_LIMIT, "100.0%", "100%"},
    };
    check_good_values(cases, sizeof cases / sizeof cases[0]);
}

struct bad_value {
    enum ps_option_index option;
    const char *value;
    const char *line; /* after the option's name and the quoted value */
};

static void check_bad_values(const struct bad_value *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = ps_options[cases[i].option].name;
        char wanted[512];
        snprintf(wanted, sizeof wanted, "poolshim: POOLSHIM_%s: \"%s\" %s\n", name, cases[i].value,
                 cases[i].line);
        read_one(name, cases[i].value);
        CHECK_EQ(faults, 1);
        CHECK_STR_EQ(messages.text, wanted);
        CHECK_EQ(settings.origins[cases[i].option], PS_ORIGIN_DEFAULT);
    }
}

TEST(bad_limits_leave_the_default_and_say_so_in_one_line) {
    static const struct bad_value cases[] = {
        {PS_OPTION_LIMIT, "101%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "0%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "-5%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "99999999999999999999%",
         "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "0.9%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "100.1%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "80.%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "1.0000000001%", "is not a percentage from 1% to 100%; using off"},
        {PS_OPTION_LIMIT, "on",
         "is neither a percentage such as 80% nor a size such as 2GiB; using off"},
        {PS_OPTION_LIMIT, "2.5",
         "is neither a percentage such as 80% nor a size such as 2GiB; using off"},
        {PS_OPTION_LIMIT, "80",
         "is below the minimum, 1MiB (a percentage is written 80%); using off"},
        {PS_OPTION_LIMIT, "101", "is below the minimum, 1MiB; using off"},
        {PS_OPTION_LIMIT, "17179869184G", "is too large; using off"},
    };
    check_bad_values(cases, sizeof cases / sizeof cases[0]);
}

TEST(bad_huge_pages_leave_the_default_and_say_so_in_one_line) {
    static const struct bad_value cases[] = {
        {PS_OPTION_HUGE, ":2MiB", "is not one of auto, thp, off, hugetlb; using auto"},
        {PS_OPTION_HUGE, "thp:2MiB", "has a size, which only hugetlb takes; using auto"},
        {PS_OPTION_HUGE, "hugetlb:", "has no size of huge pages, such as 2MiB or 1GiB; using auto"},
        {PS_OPTION_HUGE, "hugetlb:3MiB",
         "has no size of huge pages, such as 2MiB or 1GiB; using auto"},
        {PS_OPTION_HUGE, "hugetlb:64KiB",
         "has no size of huge pages, such as 2MiB or 1GiB; using auto"},
        {PS_OPTION_HUGE, "hugetlb:2GiB",
         "has no size of huge pages, such as 2MiB or 1GiB; using auto"},
        {PS_OPTION_HUGE, "hugetlb:2MiB:2MiB",
         "has no size of huge pages, such as 2MiB or 1GiB; using auto"},
    };
    check_bad_values(cases, sizeof cases / sizeof cases[0]);
}

TEST(bad_values_leave_the_default_and_say_so_in_one_line) {
    static const struct bad_value cases[] = {
        {PS_OPTION_HUGE, "yes", "is not one of auto, thp, off, hugetlb; using auto"},
        {PS_OPTION_HUGE, "auto,thp", "is not one of auto, thp, off, hugetlb; using auto"},
        {PS_OPTION_FOREIGN, "die", "is not one of abort, warn, ignore; using abort"},
        {PS_OPTION_STRICT, "2", "is not one of 0, 1, true, false, on, off; using off"},
        {PS_OPTION_VERBOSE, "yes", "is not one of 0, 1, true, false, on, off; using off"},
        {PS_OPTION_MMAP_MIN, "K", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "4iB", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "1.5", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, ".5M", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "1.M", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "1.2.3M", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "-1", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "+4M", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "0x100000", "is not a size such as 65536, 64K or 64KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "64K", "is below the minimum, 128KiB; using 32MiB"},
        {PS_OPTION_MMAP_MIN, "3G", "is above the maximum, 1GiB; using 32MiB"},
        {PS_OPTION_CACHE_MAX, "18446744073709551616", "is too large; using 64MiB"},
        {PS_OPTION_CACHE_MAX, "18446744073.8GB", "is too large; using 64MiB"},
        {PS_OPTION_CACHE_MAX, "17179869184G", "is too large; using 64MiB"},
        {PS_OPTION_CACHE_MAX, "99999999999999999999999999G", "is too large; using 64MiB"},
        {PS_OPTION_SMALL_MAX, "1023", "is below the minimum, 1KiB; using built-in"},
        {PS_OPTION_PURGE_DELAY_MS, "1s", "is not a whole number; using 250"},
        {PS_OPTION_PURGE_DELAY_MS, "-1", "is not a whole number; using 250"},
        {PS_OPTION_PURGE_DELAY_MS, "1K", "is not a whole number; using 250"},
        {PS_OPTION_PURGE_DELAY_MS, "4294967296", "is above the maximum, 4294967295; using 250"},
        {PS_OPTION_PURGE_DELAY_MS, "99999999999999999999999",
         "is above the maximum, 4294967295; using 250"},
        {PS_OPTION_PROFILE_EVERY, "s", "is not a whole number; using 0"},
        {PS_OPTION_PROFILE_EVERY, "1m", "is not a whole number; using 0"},
        {PS_OPTION_PROFILE_EVERY, "4294968s", "is above the maximum, 4294967; using 0"},
        {PS_OPTION_SIZE_CLASSES, "16,24",
         "has an entry \"24\" that is not a multiple of 16; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "16,8",
         "has an entry \"8\" that is not a multiple of 16; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "32,16",
         "has an entry \"16\" that is not above the entry before it; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "32,32",
         "has an entry \"32\" that is not above the entry before it; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "0,16",
         "has an entry \"0\" that is below the minimum, 8; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "16,128K",
         "has an entry \"128K\" that is above the maximum, 64KiB; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "16,,32",
         "has an entry \"\" that is not a size such as 65536, 64K or 64KiB; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "16,32,",
         "has an entry \"\" that is not a size such as 65536, 64K or 64KiB; using built-in"},
        {PS_OPTION_SIZE_CLASSES, "16;32",
         "has an entry \"16;32\" that is not a size such as 65536, 64K or 64KiB; using built-in"},
    };
    check_bad_values(cases, sizeof cases / sizeof cases[0]);
}

TEST(the_longest_class_table_fits_and_one_more_entry_does_not) {
    char list[1024];
    size_t length = 0;
    for (unsigned i = 1; i <= PS_CLASS_LIMIT; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%u", i == 1 ? "" : ",",
                                   i * 1024);
    }
    read_one("SIZE_CLASSES", list);
    CHECK_EQ(faults, 0);
    CHECK_EQ(settings.engine.class_count, PS_CLASS_LIMIT);
    CHECK_EQ(settings.engine.class_bytes[PS_CLASS_LIMIT - 1], PS_CLASS_LIMIT * 1024);
    snprintf(list + length, sizeof list - length, ",%u", (PS_CLASS_LIMIT + 1) * 1024);
    read_one("SIZE_CLASSES", list);
    CHECK_EQ(faults, 1);
    CHECK_EQ(settings.engine.class_count, 0);
    CHECK(strstr(messages.text, "that is one more than the 63 entries that are possible; using "
                                "built-in\n") != NULL);
}

TEST(a_file_name_may_be_long_and_not_longer) {
    static char name[PS_SETTING_PATH_BYTES + 1];
    memset(name, 'f', sizeof name - 1);
    read_one("STATS", name);
    CHECK_EQ(faults, 1);
    CHECK_EQ(settings.stats_target, PS_STATS_OFF);
    CHECK(strstr(messages.text, "...\" is too long for a file name; using off\n") != NULL);
    name[PS_SETTING_PATH_BYTES - 1] = '\0';
    read_one("STATS", name);
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(settings.stats_path, name);
}

TEST(unknown_names_are_answered_with_the_nearest) {
    static const struct {
        const char *name;
        const char *nearest;
    } cases[] = {{"HGUE", "HUGE"},
                 {"HUGE_MODE", "HUGE"},
                 {"SIZE_CLASS", "SIZE_CLASSES"},
                 {"SIZECLASSES", "SIZE_CLASSES"},
                 {"SMALL", "SMALL_MAX"},
                 {"CACHE", "CACHE_MAX"},
                 {"PURGE_DELAY", "PURGE_DELAY_MS"},
                 {"PURGE_DELAY_SM", "PURGE_DELAY_MS"},
                 {"MMAP_THRESHOLD", "MMAP_MIN"},
                 {"STAT", "STATS"},
                 {"stats", "STATS"},
                 {"VERBOES", "VERBOSE"},
                 {"STRICTLY", "STRICT"},
                 {"CONFIG", "CONF"},
                 {"FOREGIN", "FOREIGN"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[256];
        snprintf(wanted, sizeof wanted,
                 "poolshim: POOLSHIM_%s: no such option, ignored; the nearest is POOLSHIM_%s\n",
                 cases[i].name, cases[i].nearest);
        read_one(cases[i].name, "1");
        CHECK_EQ(faults, 1);
        CHECK_STR_EQ(messages.text, wanted);
    }
    GIVEN("a name that is nothing like an option, and far too long");
    static char name[3000];
    memset(name, 'Q', sizeof name - 1);
    read_one(name, "1");
    CHECK_EQ(faults, 1);
    CHECK_EQ(capture_lines(&messages), 1);
    CHECK_CMP(strlen(messages.text), <, 200);
    GIVEN("a name with control bytes");
    read_one("T\x1b[31m\nP", "1");
    CHECK_EQ(capture_lines(&messages), 1);
    CHECK(strchr(messages.text, '\x1b') == NULL);
}

TEST(each_option_is_the_nearest_to_its_own_name_misspelt) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "%sX", ps_options[i].name);
        CHECK_PTR_EQ(ps_config_nearest(ps_str_of(name), PS_ORIGIN_VARIABLE), &ps_options[i]);
    }
    CHECK(ps_config_nearest(ps_str_of("conf"), PS_ORIGIN_CONF) != &ps_options[PS_OPTION_CONF]);
}

UNIT_MAIN
