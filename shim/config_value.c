/* SPDX-License-Identifier: MIT */
/*
 * Parsing and printing of option values, one pair of functions for each type of the option table.
 * Called by shim/config.c and shim/config_report.c. No locks, no libc beyond string.h.
 */
#include "shim/config.h"

#include "pools/engine/base/compiler.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(enum ps_background) == sizeof(unsigned), "WORD fields are stored as unsigned");
static_assert(sizeof(enum ps_foreign) == sizeof(unsigned), "WORD fields are stored as unsigned");

#define SWITCH_WORDS "0|1|true|false|on|off"

static void *field_of(const struct ps_option *option, struct ps_settings *settings) {
    return (char *)settings + option->offset;
}

static const void *field_to_read(const struct ps_option *option,
                                 const struct ps_settings *settings) {
    return (const char *)settings + option->offset;
}

/* Takes the part of *rest before `separator` off it. False when nothing is left. */
static bool take_part(struct ps_str *rest, char separator, struct ps_str *part) {
    if (rest->data == NULL) {
        return false;
    }
    const char *end = memchr(rest->data, separator, rest->length);
    if (end == NULL) {
        *part = *rest;
        *rest = (struct ps_str){.data = NULL};
        return true;
    }
    *part = (struct ps_str){.data = rest->data, .length = (size_t)(end - rest->data)};
    rest->length -= part->length + 1;
    rest->data = end + 1;
    return true;
}

/* The ends of "low..high"; an end that is not there does not bind. */
static void range_of(const struct ps_option *option, uint64_t *lowest, uint64_t *highest) {
    struct ps_str rest = ps_str_of(option->range);
    struct ps_str end = {.data = NULL};
    *lowest = 0;
    *highest = UINT64_MAX;
    if (take_part(&rest, '.', &end)) {
        (void)ps_value_parse_size(end, lowest);
    }
    if (rest.data != NULL && rest.length > 1) {
        struct ps_str high = {.data = rest.data + 1, .length = rest.length - 1};
        (void)ps_value_parse_size(high, highest);
    }
}

static bool is_in_range(const struct ps_option *option, uint64_t value, struct ps_text *reason) {
    uint64_t lowest;
    uint64_t highest;
    range_of(option, &lowest, &highest);
    if (value >= lowest && value <= highest) {
        return true;
    }
    bool is_low = value < lowest;
    ps_text_add(reason, is_low ? "is below the minimum, " : "is above the maximum, ");
    if (option->type == PS_TYPE_COUNT) {
        ps_text_add_number(reason, is_low ? lowest : highest);
    } else {
        ps_text_add_size(reason, is_low ? lowest : highest);
    }
    return false;
}

static bool parse_bytes(struct ps_str value, uint64_t *bytes, struct ps_text *reason) {
    switch (ps_value_parse_size(value, bytes)) {
    case PS_NUMBER_FINE:
        return true;
    case PS_NUMBER_OVERFLOW:
        ps_text_add(reason, "is too large");
        return false;
    case PS_NUMBER_MALFORMED:
        break;
    }
    ps_text_add(reason, "is not a size such as 65536, 64K or 64KiB");
    return false;
}

static bool parse_size_field(const struct ps_option *option, struct ps_str value, size_t *field,
                             struct ps_text *reason) {
    uint64_t bytes = 0;
    if (!parse_bytes(value, &bytes, reason) || !is_in_range(option, bytes, reason)) {
        return false;
    }
    if (bytes > SIZE_MAX) {
        ps_text_add(reason, "is too large");
        return false;
    }
    *field = (size_t)bytes;
    return true;
}

static bool parse_count_field(const struct ps_option *option, struct ps_str value, uint32_t *field,
                              struct ps_text *reason) {
    uint64_t count = 0;
    bool is_seconds = strcmp(option->unit, "seconds") == 0 && value.length > 1;
    value.length -= is_seconds && value.data[value.length - 1] == 's' ? 1 : 0; /* 60s */
    enum ps_number_fault fault = ps_value_parse_count(value, &count);
    if (fault == PS_NUMBER_MALFORMED) {
        ps_text_add(reason, "is not a whole number");
        return false;
    }
    count = fault == PS_NUMBER_OVERFLOW ? UINT64_MAX : count;
    if (!is_in_range(option, count, reason)) {
        return false;
    }
    *field = (uint32_t)count;
    return true;
}

static void add_words(struct ps_text *text, const char *words) {
    struct ps_str rest = ps_str_of(words);
    struct ps_str word;
    for (bool is_first = true; take_part(&rest, '|', &word); is_first = false) {
        ps_text_add(text, is_first ? "" : ", ");
        ps_text_add_str(text, word);
    }
}

/* The position of `value` in "a|b|c", or -1. */
static int word_index(const char *words, struct ps_str value) {
    struct ps_str rest = ps_str_of(words);
    struct ps_str word;
    for (int index = 0; take_part(&rest, '|', &word); index++) {
        if (ps_str_equals_any_case(word, value)) {
            return index;
        }
    }
    return -1;
}

static bool parse_word(const char *words, struct ps_str value, unsigned *index,
                       struct ps_text *reason) {
    int found = word_index(words, value);
    if (found < 0) {
        ps_text_add(reason, "is not one of ");
        add_words(reason, words);
        return false;
    }
    *index = (unsigned)found;
    return true;
}

static bool parse_limit(const struct ps_option *option, struct ps_str value,
                        struct ps_limit_setting *field, struct ps_text *reason) {
    struct ps_limit_setting limit = {0, 0};
    uint64_t percent = 0;
    int index = word_index(SWITCH_WORDS, value);
    bool is_off = index == 0 || index == 3 || index == 5;
    if (!is_off && value.data[value.length - 1] == '%') {
        value.length--;
        if (ps_value_parse_percent(ps_str_trim(value), &percent) != PS_NUMBER_FINE || percent < 1) {
            ps_text_add(reason, "is not a percentage from 1% to 100%");
            return false;
        }
        limit.percent = (uint32_t)percent;
    } else if (!is_off) {
        uint64_t bytes = 0;
        if (ps_value_parse_size(value, &bytes) == PS_NUMBER_MALFORMED) {
            ps_text_add(reason, "is neither a percentage such as 80% nor a size such as 2GiB");
            return false;
        }
        if (!parse_size_field(option, value, &limit.bytes, reason)) {
            if (ps_value_parse_percent(value, &percent) == PS_NUMBER_FINE && percent >= 1) {
                ps_text_add(reason, " (a percentage is written ");
                ps_text_add_str(reason, value);
                ps_text_add(reason, "%)");
            }
            return false;
        }
    }
    *field = limit;
    return true;
}

/* A word, or the last one with a colon and a size. */
static bool parse_huge(const struct ps_option *option, struct ps_str size,
                       struct ps_huge_setting *field, struct ps_text *reason) {
    unsigned policy = 0;
    uint64_t bytes = 0;
    struct ps_str word = {.data = NULL};
    (void)take_part(&size, ':', &word);
    if (!parse_word(option->range, ps_str_trim(word), &policy, reason)) {
        return false;
    }
    if (size.data != NULL &&
        (policy != PS_HUGE_HUGETLB ||
         ps_value_parse_huge_size(ps_str_trim(size), &bytes) != PS_NUMBER_FINE)) {
        ps_text_add(reason, policy != PS_HUGE_HUGETLB
                                ? "has a size, which only hugetlb takes"
                                : "has no size of huge pages, such as 2MiB or 1GiB");
        return false;
    }
    *field = (struct ps_huge_setting){.policy = (enum ps_huge)policy, .page_bytes = (size_t)bytes};
    return true;
}

static bool parse_switch(struct ps_str value, bool *field, struct ps_text *reason) {
    unsigned index = 0;
    if (!parse_word(SWITCH_WORDS, value, &index, reason)) {
        return false;
    }
    *field = index == 1 || index == 2 || index == 4;
    return true;
}

static bool is_class_entry(uint32_t count, uint64_t previous, uint64_t bytes,
                           struct ps_text *reason) {
    if (bytes % 16 != 0 && !(count == 0 && bytes == 8)) {
        ps_text_add(reason, "is not a multiple of 16");
        return false;
    }
    if (bytes <= previous) {
        ps_text_add(reason, "is not above the entry before it");
        return false;
    }
    if (count == PS_CLASS_LIMIT) {
        ps_text_add(reason, "is one more than the ");
        ps_text_add_number(reason, PS_CLASS_LIMIT);
        ps_text_add(reason, " entries that are possible");
        return false;
    }
    return true;
}

static bool parse_classes(const struct ps_option *option, struct ps_str value,
                          struct ps_config *engine, struct ps_text *reason) {
    uint32_t classes[PS_CLASS_LIMIT] = {0};
    uint32_t count = 0;
    uint64_t previous = 0;
    char detail[96];
    struct ps_str part;
    while (take_part(&value, ',', &part)) {
        struct ps_text why;
        ps_text_start(&why, detail, sizeof detail, PS_TEXT_TO_BUFFER);
        part = ps_str_trim(part);
        uint64_t bytes = 0;
        if (!parse_bytes(part, &bytes, &why) || !is_in_range(option, bytes, &why) ||
            !is_class_entry(count, previous, bytes, &why)) {
            ps_text_add(reason, "has an entry ");
            ps_text_add_quoted(reason, part);
            ps_text_add(reason, " that ");
            ps_text_add_str(reason, (struct ps_str){.data = detail, .length = why.length});
            return false;
        }
        classes[count++] = (uint32_t)bytes;
        previous = bytes;
    }
    memcpy(engine->class_bytes, classes, sizeof classes);
    engine->class_count = count;
    return true;
}

static bool copy_path(struct ps_str value, char *path, struct ps_text *reason) {
    if (value.length >= PS_SETTING_PATH_BYTES) {
        ps_text_add(reason, "is too long for a file name");
        return false;
    }
    memcpy(path, value.data, value.length);
    path[value.length] = '\0';
    return true;
}

static bool parse_path(struct ps_str value, char *path, struct ps_text *reason) {
    int index = word_index(SWITCH_WORDS, value);
    if (index == 1 || index == 2 || index == 4) {
        ps_text_add(reason, "is not a file name");
        return false;
    }
    return copy_path(index < 0 ? value : (struct ps_str){.data = "", .length = 0}, path, reason);
}

static bool parse_report(struct ps_str value, struct ps_settings *settings,
                         struct ps_text *reason) {
    int index = word_index(SWITCH_WORDS, value);
    if (index >= 0) {
        settings->stats_target =
            index == 1 || index == 2 || index == 4 ? PS_STATS_STDERR : PS_STATS_OFF;
        return true;
    }
    if (!copy_path(value, settings->stats_path, reason)) {
        return false;
    }
    settings->stats_target = PS_STATS_FILE;
    return true;
}

bool ps_value_parse(const struct ps_option *option, struct ps_str value,
                    struct ps_settings *settings, struct ps_text *reason) {
    void *field = field_of(option, settings);
    switch (option->type) {
    case PS_TYPE_SIZE:
        return parse_size_field(option, value, field, reason);
    case PS_TYPE_LIMIT:
        return parse_limit(option, value, field, reason);
    case PS_TYPE_COUNT:
        return parse_count_field(option, value, field, reason);
    case PS_TYPE_WORD:
        return parse_word(option->range, value, field, reason);
    case PS_TYPE_HUGE:
        return parse_huge(option, value, field, reason);
    case PS_TYPE_SWITCH:
        return parse_switch(value, field, reason);
    case PS_TYPE_LIST:
        return parse_classes(option, value, &settings->engine, reason);
    case PS_TYPE_REPORT:
        return parse_report(value, settings, reason);
    case PS_TYPE_PATH:
        return parse_path(value, field, reason);
    case PS_TYPE_PACKED:
        break;
    }
    ps_text_add(reason, "cannot be set here");
    return false;
}

static void print_word(const char *words, unsigned index, struct ps_text *text) {
    struct ps_str rest = ps_str_of(words);
    struct ps_str word = {.data = "", .length = 0};
    for (unsigned i = 0; i <= index && take_part(&rest, '|', &word); i++) {
    }
    ps_text_add_str(text, word);
}

static void print_classes(const struct ps_config *engine, struct ps_text *text) {
    if (engine->class_count == 0) {
        ps_text_add(text, "built-in");
    }
    for (uint32_t i = 0; i < engine->class_count; i++) {
        ps_text_add(text, i == 0 ? "" : ",");
        ps_text_add_number(text, engine->class_bytes[i]);
    }
}

static void print_size(const struct ps_option *option, size_t bytes, struct ps_text *text) {
    if (bytes == 0 && option->range[0] != '0') {
        ps_text_add(text, "built-in");
        return;
    }
    ps_text_add_size(text, bytes);
}

static void print_limit(const struct ps_limit_setting *limit, struct ps_text *text) {
    if (limit->percent != 0) {
        ps_text_add_number(text, limit->percent);
        ps_text_add(text, "%");
    } else if (limit->bytes != 0) {
        ps_text_add_size(text, limit->bytes);
    } else {
        ps_text_add(text, "off");
    }
}

static void print_report(const struct ps_settings *settings, struct ps_text *text) {
    if (settings->stats_target == PS_STATS_FILE) {
        ps_text_add_path(text, settings->stats_path);
        return;
    }
    ps_text_add(text, settings->stats_target == PS_STATS_STDERR ? "on" : "off");
}

void ps_value_print(const struct ps_option *option, const struct ps_settings *settings,
                    struct ps_text *text) {
    const void *field = field_to_read(option, settings);
    switch (option->type) {
    case PS_TYPE_SIZE:
        print_size(option, *(const size_t *)field, text);
        break;
    case PS_TYPE_LIMIT:
        print_limit(field, text);
        break;
    case PS_TYPE_COUNT:
        ps_text_add_number(text, *(const uint32_t *)field);
        break;
    case PS_TYPE_WORD:
        print_word(option->range, *(const unsigned *)field, text);
        break;
    case PS_TYPE_HUGE:
        print_word(option->range, ((const struct ps_huge_setting *)field)->policy, text);
        if (((const struct ps_huge_setting *)field)->page_bytes != 0) {
            ps_text_add(text, ":");
            ps_text_add_size(text, ((const struct ps_huge_setting *)field)->page_bytes);
        }
        break;
    case PS_TYPE_SWITCH:
        ps_text_add(text, *(const bool *)field ? "on" : "off");
        break;
    case PS_TYPE_LIST:
        print_classes(&settings->engine, text);
        break;
    case PS_TYPE_REPORT:
        print_report(settings, text);
        break;
    case PS_TYPE_PATH:
        ps_text_add_path(text, *(const char *)field != '\0' ? (const char *)field : "off");
        break;
    case PS_TYPE_PACKED:
        break;
    }
}

/* Only the engine's part is written; the pages of the paths are not touched. */
static PS_SPARSE struct ps_settings defaults;

void ps_value_print_default(const struct ps_option *option, struct ps_text *text) {
    defaults.engine = (struct ps_config)PS_CONFIG_DEFAULT;
    ps_value_print(option, &defaults, text);
}

void ps_value_print_range(const struct ps_option *option, struct ps_text *text) {
    switch (option->type) {
    case PS_TYPE_WORD:
    case PS_TYPE_HUGE:
        add_words(text, option->range);
        ps_text_add(text, option->type == PS_TYPE_HUGE ? ", hugetlb:SIZE" : "");
        break;
    case PS_TYPE_SWITCH:
        add_words(text, SWITCH_WORDS);
        break;
    case PS_TYPE_REPORT:
        ps_text_add(text, "0, 1 or a file name");
        break;
    case PS_TYPE_PATH:
        ps_text_add(text, "0 or a file name");
        break;
    case PS_TYPE_PACKED:
        ps_text_add(text, "name:value,name:value");
        break;
    case PS_TYPE_LIMIT:
        ps_text_add(text, "off, 1%..100%, ");
        ps_text_add(text, option->range);
        break;
    case PS_TYPE_SIZE:
    case PS_TYPE_COUNT:
    case PS_TYPE_LIST:
        ps_text_add(text, option->range);
        break;
    }
}
