// sources: shim/config.c shim/config_value.c shim/config_report.c shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * Environment to settings: what each option accepts and refuses, with the exact line on stderr,
 * what wins over what, and random input that must never do worse than a message.
 */
#include "shim/config.h"
#include "shim/config_report.h"
#include "shim/config_value.h"
#include "tests/unit/shim/capture.h"

static struct ps_settings settings;
static struct capture messages;
static uint32_t faults;

/* Reads an environment given as separate entries. */
static void read_environment(char *const *environment) {
    capture_start(&messages);
    const struct ps_config_input input = {
        .environment = environment, .environment_file = "/nonexistent", .message_fd = messages.fd};
    faults = ps_config_read(&settings, &input);
    capture_end(&messages);
}

#define READ(...) read_environment((char *[]){__VA_ARGS__, NULL})

static void read_one(const char *name, const char *value) {
    char entry[8192];
    snprintf(entry, sizeof entry, "POOLSHIM_%s=%s", name, value);
    READ(entry);
}

static const char *in_force(enum ps_option_index index) {
    static char buffer[1024];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer - 1, PS_TEXT_TO_BUFFER);
    ps_value_print(&ps_options[index], &settings, &text);
    buffer[text.length] = '\0';
    return buffer;
}

TEST(defaults_of_the_table_are_those_of_the_engine) {
    READ((char *)"HOME=/");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(messages.text, "");
    const struct ps_config engine = PS_CONFIG_DEFAULT;
    CHECK(memcmp(&settings.engine, &engine, sizeof engine) == 0);
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        bool is_built_in = option->default_text[0] == '\0' && option->type != PS_TYPE_PACKED;
        CHECK_STR_EQ(in_force((enum ps_option_index)i),
                     is_built_in ? "built-in" : option->default_text);
        CHECK_EQ(settings.origins[i], PS_ORIGIN_DEFAULT);
    }
}

TEST(every_default_is_accepted_as_a_value) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        read_one(ps_options[i].name, ps_options[i].default_text);
        CHECK_EQ(faults, 0);
        CHECK_STR_EQ(messages.text, "");
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

TEST(good_values_are_taken) {
    static const struct {
        enum ps_option_index option;
        const char *value;
        const char *wanted;
    } cases[] = {
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
        {PS_OPTION_PURGE_DELAY_MS, "0", "0"},
        {PS_OPTION_PURGE_DELAY_MS, "4294967295", "4294967295"},
        {PS_OPTION_THP, "always", "always"},
        {PS_OPTION_THP, "NEVER", "never"},
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
        {PS_OPTION_THP, "", "auto"},
        {PS_OPTION_SIZE_CLASSES, "  ", "built-in"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_one(ps_options[cases[i].option].name, cases[i].value);
        CHECK_EQ(faults, 0);
        CHECK_STR_EQ(messages.text, "");
        CHECK_STR_EQ(in_force(cases[i].option), cases[i].wanted);
    }
}

TEST(bad_values_leave_the_default_and_say_so_in_one_line) {
    static const struct {
        enum ps_option_index option;
        const char *value;
        const char *line; /* after the option's name and the quoted value */
    } cases[] = {
        {PS_OPTION_THP, "yes", "is not one of auto, always, never; using auto"},
        {PS_OPTION_THP, "auto,always", "is not one of auto, always, never; using auto"},
        {PS_OPTION_FOREIGN, "die", "is not one of abort, warn, ignore; using abort"},
        {PS_OPTION_STRICT, "2", "is not one of 0, 1, true, false, on, off; using off"},
        {PS_OPTION_VERBOSE, "yes", "is not one of 0, 1, true, false, on, off; using off"},
        {PS_OPTION_MMAP_MIN, "4MB", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "K", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "1 M", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "-1", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "+4M", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "0x100000", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "1.5M", "is not a size such as 65536, 64K or 64KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "64K", "is below the minimum, 128KiB; using 4MiB"},
        {PS_OPTION_MMAP_MIN, "3G", "is above the maximum, 2GiB; using 4MiB"},
        {PS_OPTION_CACHE_MAX, "18446744073709551616", "is too large; using 64MiB"},
        {PS_OPTION_CACHE_MAX, "17179869184G", "is too large; using 64MiB"},
        {PS_OPTION_CACHE_MAX, "99999999999999999999999999G", "is too large; using 64MiB"},
        {PS_OPTION_SMALL_MAX, "1023", "is below the minimum, 1KiB; using built-in"},
        {PS_OPTION_PURGE_DELAY_MS, "1s", "is not a whole number; using 1000"},
        {PS_OPTION_PURGE_DELAY_MS, "-1", "is not a whole number; using 1000"},
        {PS_OPTION_PURGE_DELAY_MS, "1K", "is not a whole number; using 1000"},
        {PS_OPTION_PURGE_DELAY_MS, "4294967296", "is above the maximum, 4294967295; using 1000"},
        {PS_OPTION_PURGE_DELAY_MS, "99999999999999999999999",
         "is above the maximum, 4294967295; using 1000"},
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
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
    static char name[PS_STATS_PATH_BYTES + 1];
    memset(name, 'f', sizeof name - 1);
    read_one("STATS", name);
    CHECK_EQ(faults, 1);
    CHECK_EQ(settings.stats_target, PS_STATS_OFF);
    CHECK(strstr(messages.text, "...\" is too long for a file name; using off\n") != NULL);
    name[PS_STATS_PATH_BYTES - 1] = '\0';
    read_one("STATS", name);
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(settings.stats_path, name);
}

TEST(unknown_names_are_answered_with_the_nearest) {
    static const struct {
        const char *name;
        const char *nearest;
    } cases[] = {{"TPH", "THP"},
                 {"THP_MODE", "THP"},
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
        CHECK_PTR_EQ(ps_config_nearest(ps_slice_of(name), PS_ORIGIN_VARIABLE), &ps_options[i]);
    }
    CHECK(ps_config_nearest(ps_slice_of("conf"), PS_ORIGIN_CONF) != &ps_options[PS_OPTION_CONF]);
}

TEST(conf_sets_several_options_and_lists_need_no_quotes) {
    READ((char *)"POOLSHIM_CONF=thp:always,size_classes:16,32,48,PURGE_DELAY_MS:5, verbose : off,");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(messages.text, "");
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "always");
    CHECK_STR_EQ(in_force(PS_OPTION_SIZE_CLASSES), "16,32,48");
    CHECK_STR_EQ(in_force(PS_OPTION_PURGE_DELAY_MS), "5");
    CHECK_EQ(settings.origins[PS_OPTION_THP], PS_ORIGIN_CONF);
    CHECK_EQ(settings.origins[PS_OPTION_MMAP_MIN], PS_ORIGIN_DEFAULT);
}

TEST(conf_takes_file_names_with_commas_and_colons) {
    READ((char *)"POOLSHIM_CONF=stats:/tmp/a,b/c:d,thp:never");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(settings.stats_path, "/tmp/a,b/c:d");
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "never");
}

TEST(the_specific_variable_wins_in_either_order) {
    READ((char *)"POOLSHIM_CONF=thp:always", (char *)"POOLSHIM_THP=never");
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "never");
    READ((char *)"POOLSHIM_THP=never", (char *)"POOLSHIM_CONF=thp:always");
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "never");
    CHECK_EQ(settings.origins[PS_OPTION_THP], PS_ORIGIN_VARIABLE);
    WHEN("the specific one is wrong");
    READ((char *)"POOLSHIM_THP=nevr", (char *)"POOLSHIM_CONF=thp:always");
    THEN("the packed one stays in force");
    CHECK_STR_EQ(messages.text, "poolshim: POOLSHIM_THP: \"nevr\" is not one of auto, always, "
                                "never; using always\n");
    WHEN("the specific one is empty");
    READ((char *)"POOLSHIM_THP=", (char *)"POOLSHIM_CONF=thp:always");
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "always");
}

TEST(of_duplicates_the_first_variable_and_the_last_pair_count) {
    READ((char *)"POOLSHIM_THP=never", (char *)"POOLSHIM_THP=bogus");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "never");
    READ((char *)"POOLSHIM_CONF=thp:never,thp:always");
    CHECK_EQ(faults, 0);
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "always");
}

TEST(faults_in_conf_name_the_place) {
    READ((char *)"POOLSHIM_CONF=bare,tph:always,thp:yes,conf:x,small_max:2K");
    CHECK_STR_EQ(messages.text,
                 "poolshim: POOLSHIM_CONF: \"bare\" is not name:value, ignored\n"
                 "poolshim: POOLSHIM_CONF: tph: no such option, ignored; the nearest is thp\n"
                 "poolshim: POOLSHIM_CONF: thp: \"yes\" is not one of auto, always, never; using "
                 "auto\n"
                 "poolshim: POOLSHIM_CONF: conf: no such option, ignored; the nearest is thp\n");
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
    char *environment[] = {(char *)"POOLSHIM_THP=never", (char *)"POOLSHIM_XYZ=1",
                           (char *)"POOLSHIM_VERBOSE=1", (char *)"POOLSHIM_STRICT=1", NULL};
    capture_start(&messages);
    struct ps_config_input input = {
        .environment = environment, .is_secure = true, .message_fd = messages.fd};
    CHECK_EQ(ps_config_read(&settings, &input), 0);
    CHECK_STR_EQ(capture_end(&messages), "poolshim: privileged program, POOLSHIM_* is ignored\n");
    CHECK(!settings.strict && !settings.verbose);
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "auto");
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
    length += (size_t)sprintf(content, "POOLSHIM_THP=never") + 1;
    length += (size_t)sprintf(content + length, "POOLSHIM_STATS=%09000d", 0) + 1;
    length += (size_t)sprintf(content + length, "OTHER=%09000d", 0) + 1;
    length += (size_t)sprintf(content + length, "POOLSHIM_CONF=foreign:warn,thp:always") + 1;
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
    CHECK_STR_EQ(in_force(PS_OPTION_THP), "never");
    CHECK_STR_EQ(in_force(PS_OPTION_FOREIGN), "warn");
}

TEST(verbose_lists_every_option_with_value_and_origin) {
    READ((char *)"POOLSHIM_VERBOSE=1", (char *)"POOLSHIM_CONF=thp:never",
         (char *)"POOLSHIM_SIZE_CLASSES=16,32,48,64,80,96,112,128,144");
    CHECK_EQ(faults, 0);
    CHECK_EQ(capture_lines(&messages), PS_OPTION_COUNT); /* CONF is not listed, a title is */
    CHECK(strstr(messages.text, "THP             never                    (POOLSHIM_CONF)\n"));
    CHECK(strstr(messages.text, "MMAP_MIN        4MiB                     (default)\n"));
    CHECK(strstr(messages.text, "VERBOSE         on                       (environment)\n"));
    CHECK(strstr(messages.text, "SIZE_CLASSES    16,32,48,64,80,96,112,128,144 (environment)\n"));
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

static void check_is_sound(void) {
    const struct ps_config *engine = &settings.engine;
    CHECK_CMP(engine->class_count, <=, PS_CLASS_LIMIT);
    for (uint32_t i = 0; i < engine->class_count; i++) {
        uint32_t bytes = engine->class_bytes[i];
        CHECK(bytes % 16 == 0 || (i == 0 && bytes == 8));
        CHECK(bytes >= 8 && bytes <= PS_CLASS_BYTES_LIMIT);
        CHECK(i == 0 || bytes > engine->class_bytes[i - 1]);
    }
    CHECK(engine->small_max_bytes == 0 ||
          (engine->small_max_bytes >= 1024 && engine->small_max_bytes <= PS_CLASS_BYTES_LIMIT));
    CHECK_CMP(engine->mmap_min_bytes, >=, 128 << 10);
    CHECK_CMP((unsigned)engine->thp, <=, PS_THP_NEVER);
    CHECK_CMP((unsigned)engine->foreign, <=, PS_FOREIGN_IGNORE);
    CHECK(memchr(settings.stats_path, '\0', sizeof settings.stats_path) != NULL);
}

/* Entries glued from pieces that the parsers care about, and random bytes. */
static size_t random_entry(char *out, size_t capacity) {
    static const char *const pieces[] = {"8",
                                         "16",
                                         ",",
                                         ":",
                                         ",thp:",
                                         "auto",
                                         "always",
                                         "K",
                                         "MiB",
                                         "G",
                                         "64",
                                         "0",
                                         "1",
                                         "-",
                                         " ",
                                         "=",
                                         "18446744",
                                         "073709551615",
                                         "on",
                                         "%p",
                                         ".",
                                         "json",
                                         "/",
                                         "32,",
                                         "48,",
                                         "65536",
                                         "size_classes:",
                                         "\x80",
                                         "\n",
                                         "conf:",
                                         "small_max:2K",
                                         "131072"};
    size_t length = 0;
    if (unit_random() % 8 == 0) {
        length = (size_t)snprintf(out, capacity, "POOLSHIM_%c%c=", (int)(33 + unit_random() % 90),
                                  (int)(33 + unit_random() % 90));
    } else {
        length = (size_t)snprintf(out, capacity,
                                  "POOLSHIM_%s=", ps_options[unit_random() % PS_OPTION_COUNT].name);
    }
    for (uint64_t i = unit_random() % 12; i > 0; i--) {
        const char *piece = pieces[unit_random() % (sizeof pieces / sizeof pieces[0])];
        length += (size_t)snprintf(out + length, capacity - length, "%s", piece);
    }
    return length;
}

TEST(random_input_leaves_sound_settings_and_a_line_for_each_fault) {
    enum { ENTRIES = 4, BYTES = 512 };
    char *environment[ENTRIES + 1] = {NULL};
    unsigned accepted = 0;
    for (int round = 0; round < 30000; round++) {
        size_t count = 1 + (size_t)(unit_random() % ENTRIES);
        for (size_t i = 0; i < count; i++) {
            /* Exactly as long as the text, so that ASan sees a read behind the end. */
            char entry[BYTES];
            size_t length = random_entry(entry, sizeof entry);
            environment[i] = malloc(length + 1);
            memcpy(environment[i], entry, length + 1);
        }
        environment[count] = NULL;
        read_environment(environment);
        check_is_sound();
        if (!settings.verbose && !settings.help) {
            CHECK_EQ(capture_lines(&messages), faults);
        }
        accepted += faults == 0;
        for (size_t i = 0; i < count; i++) {
            free(environment[i]);
        }
    }
    CHECK_CMP(accepted, >, 100);
    printf("%u of 30000 random environments were free of faults\n", accepted);
}

UNIT_MAIN
