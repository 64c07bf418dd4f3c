/* SPDX-License-Identifier: MIT */
/*
 * Reads the environment into the settings. Two passes, so that POOLSHIM_<OPTION> wins over
 * POOLSHIM_CONF in any order: first the packed variable, then the others. Called by the start-up
 * code, under its lock; no locks of its own.
 */
#include "shim/config.h"

#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/syscall.h"
#include "shim/environment.h"
#include "shim/text.h"

#include <assert.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define REASON_BYTES 256
#define FLIGHT_INTERVAL_BYTES PS_MIB(2) /* for the whole life of a process */
#define FILE_BUFFER_BYTES 8192 /* the longest variable that /proc/self/environ can give us */

#define OFFSET_OF(field) offsetof(struct ps_settings, field)

const struct ps_option ps_options[PS_OPTION_COUNT] = {
#define PS_OPTION(name, type, unit, range, field, help)                                            \
    [PS_OPTION_##name] = {#name, PS_TYPE_##type, unit, range, OFFSET_OF(field), help},
#include "shim/config.def"
#undef PS_OPTION
};

/* One pass over the environment. */
struct reading {
    struct ps_settings *settings;
    struct ps_config_site site;
    uint64_t seen; /* bit of each option read in this pass: the first duplicate counts, as */
                   /* with getenv */
    uint32_t fault_count;
    bool has_former; /* the former name of an option was read and reported */
};

static_assert(PS_OPTION_COUNT <= 64, "struct reading has a bit for each option");

static const struct ps_option *find_option(struct ps_str name, enum ps_origin origin) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        if (origin == PS_ORIGIN_CONF) {
            if (option->type != PS_TYPE_PACKED &&
                ps_str_equals_any_case(name, ps_str_of(option->name))) {
                return option;
            }
        } else if (ps_str_equals(name, option->name)) {
            return option;
        }
    }
    return NULL;
}

static void report_value(struct reading *reading, const struct ps_option *option,
                         struct ps_str value, struct ps_str reason) {
    reading->fault_count++;
    ps_config_report_value(&reading->site, option, value, reading->settings, reason);
}

static void set_option(struct reading *reading, const struct ps_option *option,
                       struct ps_str value) {
    char buffer[REASON_BYTES];
    struct ps_text reason;
    ps_text_start(&reason, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    value = ps_str_trim(value);
    /* An empty variable is how containers and unit files say "not set". */
    if (value.length == 0) {
        return;
    }
    if (!ps_value_parse(option, value, reading->settings, &reason)) {
        report_value(reading, option, value,
                     (struct ps_str){.data = buffer, .length = reason.length});
        return;
    }
    reading->settings->origins[option - ps_options] = (uint8_t)reading->site.origin;
}

static const char former_name[] = "THP"; /* of HUGE, until the next version */

static bool is_former(struct ps_str name, enum ps_origin origin) {
    return origin == PS_ORIGIN_CONF ? ps_str_equals_any_case(name, ps_str_of(former_name))
                                    : ps_str_equals(name, former_name);
}

/* Translates the value of the former option. POOLSHIM_HUGE wins, wherever it is. */
static void set_former(struct reading *reading, struct ps_str value) {
    static const char *const words[][2] = {{"auto", "auto"}, {"always", "thp"}, {"never", "off"}};
    const struct ps_option *option = &ps_options[PS_OPTION_HUGE];
    value = ps_str_trim(value);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (ps_str_equals_any_case(value, ps_str_of(words[i][0]))) {
            if (!reading->has_former) {
                reading->has_former = true;
                ps_config_report_former(&reading->site, former_name, option, words[i][1]);
            }
            if (reading->settings->origins[PS_OPTION_HUGE] != PS_ORIGIN_VARIABLE) {
                set_option(reading, option, ps_str_of(words[i][1]));
            }
            return;
        }
    }
    if (value.length != 0) {
        report_value(reading, option, value, ps_str_of("is not a value of its former name, THP"));
    }
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* True when "name:" starts here, so that the comma before it ended a pair. */
static bool starts_pair(struct ps_str text) {
    text = ps_str_trim(text);
    size_t length = 0;
    while (length < text.length && is_name_character(text.data[length])) {
        length++;
    }
    bool has_name = length > 0;
    while (length < text.length && text.data[length] == ' ') {
        length++;
    }
    return has_name && length < text.length && text.data[length] == ':';
}

/* Splits "name:value"; false when there is no colon. */
static bool split_pair(struct ps_str pair, struct ps_str *name, struct ps_str *value) {
    const char *colon = memchr(pair.data, ':', pair.length);
    if (colon == NULL) {
        return false;
    }
    *name = (struct ps_str){.data = pair.data, .length = (size_t)(colon - pair.data)};
    *value = (struct ps_str){.data = colon + 1, .length = pair.length - name->length - 1};
    *name = ps_str_trim(*name);
    return true;
}

/* True when the value of the pair that begins here may contain commas. Values of unknown options
 * may. */
static bool may_hold_commas(struct ps_str text) {
    struct ps_str name;
    struct ps_str value;
    if (!split_pair(text, &name, &value) || memchr(name.data, ',', name.length) != NULL) {
        return false;
    }
    const struct ps_option *option = find_option(name, PS_ORIGIN_CONF);
    return option == NULL || option->type == PS_TYPE_LIST || option->type == PS_TYPE_REPORT ||
           option->type == PS_TYPE_PATH;
}

/* Takes the first pair off *rest, with the comma after it. */
static struct ps_str take_pair(struct ps_str *rest) {
    bool is_greedy = may_hold_commas(*rest);
    for (size_t i = 0; i < rest->length; i++) {
        struct ps_str after = {.data = rest->data + i + 1, .length = rest->length - i - 1};
        bool is_end = !is_greedy || after.length == 0 || starts_pair(after);
        if (rest->data[i] == ',' && is_end) {
            struct ps_str pair = {.data = rest->data, .length = i};
            *rest = after;
            return pair;
        }
    }
    struct ps_str pair = *rest;
    *rest = (struct ps_str){.data = NULL};
    return pair;
}

static void set_pair(struct reading *reading, struct ps_str pair) {
    pair = ps_str_trim(pair);
    if (pair.length == 0) {
        return;
    }
    struct ps_str name;
    struct ps_str value;
    if (!split_pair(pair, &name, &value)) {
        reading->fault_count++;
        ps_config_report_malformed(&reading->site, pair);
        return;
    }
    const struct ps_option *option = find_option(name, reading->site.origin);
    if (is_former(name, reading->site.origin)) {
        set_former(reading, value);
        return;
    }
    if (option == NULL) {
        reading->fault_count++;
        ps_config_report_unknown(&reading->site, name);
        return;
    }
    set_option(reading, option, value);
}

/* True the first time. */
static bool mark_seen(struct reading *reading, const struct ps_option *option) {
    uint64_t bit = UINT64_C(1) << (option - ps_options);
    bool is_first = (reading->seen & bit) == 0;
    reading->seen |= bit;
    return is_first;
}

static void visit(void *context, const struct ps_environment_entry *entry) {
    struct reading *reading = context;
    const struct ps_option *option = find_option(entry->name, PS_ORIGIN_VARIABLE);
    bool is_packed = option == &ps_options[PS_OPTION_CONF];
    if (is_packed != (reading->site.origin == PS_ORIGIN_CONF)) {
        return;
    }
    if (is_former(entry->name, PS_ORIGIN_VARIABLE)) {
        set_former(reading, entry->value);
        return;
    }
    if (option == NULL) {
        reading->fault_count++;
        ps_config_report_unknown(&reading->site, entry->name);
        return;
    }
    if (!mark_seen(reading, option)) {
        return;
    }
    if (entry->is_cut) {
        report_value(reading, option, entry->value, ps_str_of("is too long"));
        return;
    }
    if (!is_packed) {
        set_option(reading, option, entry->value);
        return;
    }
    struct ps_str rest = entry->value;
    while (rest.data != NULL && rest.length > 0) {
        set_pair(reading, take_pair(&rest));
    }
}

static void visit_secure(void *context, const struct ps_environment_entry *entry) {
    (void)entry;
    *(bool *)context = true;
}

/* In .bss: the first malloc may run on a small stack. Touched only before libc is ready. */
static PS_SPARSE char file_buffer[FILE_BUFFER_BYTES];

static void visit_environment(const struct ps_config_input *input, ps_environment_visitor *visitor,
                              void *context) {
    if (input->environment != NULL) {
        ps_environment_visit_array(input->environment, visitor, context);
        return;
    }
    /* Without /proc there is nothing to read and the defaults apply. */
    (void)ps_environment_visit_file(input->environment_file, file_buffer, sizeof file_buffer,
                                    visitor, context);
}

/* Turns off an option whose mode another option excludes; returns the number of faults. */
static uint32_t refuse(struct ps_settings *settings, enum ps_option_index index, char *path,
                       const char *what, const char *other, int message_fd) {
    char buffer[REASON_BYTES];
    struct ps_text reason;
    path[0] = '\0';
    settings->origins[index] = PS_ORIGIN_DEFAULT;
    ps_text_start(&reason, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_text_add(&reason, what);
    ps_text_add(&reason, " while " PS_ENVIRONMENT_PREFIX);
    ps_text_add(&reason, other);
    ps_text_add(&reason, " is on");
    ps_config_report_contradiction(message_fd, &ps_options[index],
                                   (struct ps_str){.data = buffer, .length = reason.length});
    return 1;
}

/* True if an option names a file. Does not touch the page of a path that was never set. */
static bool has_path(const struct ps_settings *settings, enum ps_option_index index,
                     const char *path) {
    return settings->origins[index] != PS_ORIGIN_DEFAULT && path[0] != '\0';
}

/* Modes that a file's name turns on exclude each other, and hardened and guarded blocks, which they
 * would bypass: safety takes precedence, then the order here. */
static uint32_t settle_modes(struct ps_settings *settings, int message_fd) {
    struct ps_config *engine = &settings->engine;
    const struct {
        char *path;
        enum ps_option_index index;
        const char *without;
    } files[] = {{settings->record_path, PS_OPTION_RECORD, "nothing is recorded"},
                 {settings->trace_path, PS_OPTION_TRACE, "there is no trace"},
                 {settings->profile_path, PS_OPTION_PROFILE, "there is no profile"}};
    const char *on = engine->guard_sample != 0 ? "GUARD_SAMPLE" : NULL;
    on = engine->harden != 0 ? "HARDEN" : on;
    uint32_t faults = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!has_path(settings, files[i].index, files[i].path)) {
            continue;
        }
        if (on != NULL) {
            faults +=
                refuse(settings, files[i].index, files[i].path, files[i].without, on, message_fd);
        } else {
            on = ps_options[files[i].index].name;
        }
    }
    bool has_flight = has_path(settings, PS_OPTION_FLIGHT, settings->flight_path);
    if (has_flight && on != NULL && on != ps_options[PS_OPTION_PROFILE].name) {
        faults += refuse(settings, PS_OPTION_FLIGHT, settings->flight_path,
                         "there is no flight record", on, message_fd);
        has_flight = false;
    }
    engine->flight = has_flight;
    if (has_flight && on == NULL &&
        settings->origins[PS_OPTION_PROFILE_INTERVAL] == PS_ORIGIN_DEFAULT) {
        engine->profile_interval_bytes = FLIGHT_INTERVAL_BYTES;
    }
    engine->record = has_path(settings, PS_OPTION_RECORD, settings->record_path) ||
                     has_path(settings, PS_OPTION_TRACE, settings->trace_path);
    engine->profile = has_path(settings, PS_OPTION_PROFILE, settings->profile_path);
    return faults;
}

/* Memory tags are what the machine has, and exclude guarded samples, whose pages have none. */
static uint32_t settle_tags(struct ps_settings *settings, int message_fd) {
    struct ps_config *engine = &settings->engine;
    if (engine->harden != PS_HARDEN_MEMORY_TAGS) {
        return 0;
    }
    if (!ps_mte_start()) {
        engine->harden = 0;
        settings->origins[PS_OPTION_HARDEN] = PS_ORIGIN_DEFAULT;
        ps_config_report_contradiction(
            message_fd, &ps_options[PS_OPTION_HARDEN],
            ps_str_of("\"mte\" needs a processor and a kernel with the Memory Tagging Extension of "
                      "64-bit ARM, and there is none here; using 0"));
        return 1;
    }
    if (engine->guard_sample == 0) {
        return 0;
    }
    engine->guard_sample = 0;
    settings->origins[PS_OPTION_GUARD_SAMPLE] = PS_ORIGIN_DEFAULT;
    ps_config_report_contradiction(
        message_fd, &ps_options[PS_OPTION_GUARD_SAMPLE],
        ps_str_of("there are no samples while " PS_ENVIRONMENT_PREFIX "HARDEN is mte"));
    return 1;
}

/* Level 3 has samples, unless a rate is set, also one of 0. */
static void settle_samples(struct ps_settings *settings) {
    struct ps_config *engine = &settings->engine;
    if (engine->harden == PS_HARDEN_LONG_QUARANTINE &&
        settings->origins[PS_OPTION_GUARD_SAMPLE] == PS_ORIGIN_DEFAULT) {
        engine->guard_sample = PS_GUARD_SAMPLE_LONG;
    }
}

/* Checks classes that are valid alone and wrong with SMALL_MAX; returns the number of faults. */
static uint32_t settle_classes(struct ps_settings *settings, int message_fd) {
    struct ps_config *engine = &settings->engine;
    uint32_t last = engine->class_count == 0 ? 0 : engine->class_bytes[engine->class_count - 1];
    if (engine->small_max_bytes == 0 || engine->small_max_bytes >= last) {
        return 0;
    }
    char buffer[REASON_BYTES];
    struct ps_text reason;
    ps_text_start(&reason, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_text_add_size(&reason, engine->small_max_bytes);
    ps_text_add(&reason, " is below ");
    ps_text_add_size(&reason, last);
    ps_text_add(&reason, ", the last entry of " PS_ENVIRONMENT_PREFIX "SIZE_CLASSES; using ");
    /* The table is the more deliberate of the two. */
    engine->small_max_bytes = 0;
    settings->origins[PS_OPTION_SMALL_MAX] = PS_ORIGIN_DEFAULT;
    ps_value_print(&ps_options[PS_OPTION_SMALL_MAX], settings, &reason);
    ps_config_report_contradiction(message_fd, &ps_options[PS_OPTION_SMALL_MAX],
                                   (struct ps_str){.data = buffer, .length = reason.length});
    return 1;
}

static void clear(struct ps_settings *settings, enum ps_option_index index, char *path) {
    if (has_path(settings, index, path)) {
        path[0] = '\0';
    }
}

uint32_t ps_config_read(struct ps_settings *settings, const struct ps_config_input *input) {
    clear(settings, PS_OPTION_STATS, settings->stats_path);
    clear(settings, PS_OPTION_RECORD, settings->record_path);
    clear(settings, PS_OPTION_TRACE, settings->trace_path);
    clear(settings, PS_OPTION_PROFILE, settings->profile_path);
    clear(settings, PS_OPTION_FLIGHT, settings->flight_path);
    memset(settings, 0, offsetof(struct ps_settings, stats_path));
    settings->engine = (struct ps_config)PS_CONFIG_DEFAULT;
    if (input->is_secure) {
        bool has_any = false;
        visit_environment(input, visit_secure, &has_any);
        if (has_any) {
            ps_config_report_secure(input->message_fd);
        }
        return 0;
    }
    struct reading reading = {
        .settings = settings,
        .site = {.message_fd = input->message_fd, .origin = PS_ORIGIN_CONF},
    };
    visit_environment(input, visit, &reading);
    reading.site.origin = PS_ORIGIN_VARIABLE;
    reading.seen = 0;
    visit_environment(input, visit, &reading);
    reading.fault_count += settle_classes(settings, input->message_fd);
    reading.fault_count += settle_tags(settings, input->message_fd);
    settle_samples(settings);
    reading.fault_count += settle_modes(settings, input->message_fd);
    reading.fault_count += input->settle != NULL ? input->settle(settings, input->message_fd) : 0;
    if (settings->help) {
        ps_config_list_options(input->message_fd);
    }
    if (settings->verbose) {
        ps_config_list_settings(input->message_fd, settings);
    }
    return reading.fault_count;
}
