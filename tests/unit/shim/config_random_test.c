// sources: shim/config.c shim/config_number.c shim/config_value.c shim/config_report.c
// sources: shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * Random environments must never do worse than a message: whatever is read, the settings in force
 * are ones the engine can run with, and each fault has its line.
 */
#include "tests/unit/shim/config_reading.h"

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
    CHECK_CMP((unsigned)engine->huge.policy, <=, PS_HUGE_HUGETLB);
    CHECK_CMP((unsigned)engine->foreign, <=, PS_FOREIGN_IGNORE);
    CHECK(memchr(settings.stats_path, '\0', sizeof settings.stats_path) != NULL);
}

/* Entries glued from pieces that parsers treat specially, and random bytes. */
static size_t random_entry(char *out, size_t capacity) {
    static const char *const pieces[] = {"8",
                                         "16",
                                         ",",
                                         ":",
                                         ",huge:",
                                         "auto",
                                         "thp",
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
            /* Exactly as long as the text, so that ASan sees a read past the end. */
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
