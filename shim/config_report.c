/* SPDX-License-Identifier: MIT */
/*
 * Messages and listings of the configuration. Each line is built in a stack buffer and leaves in
 * one write(2), so lines of several processes do not mix. No locks.
 */
#include "shim/config.h"

#include "pools/engine/os/syscall.h"
#include "pools/include/poolshim/poolshim.h"
#include "shim/environment.h"

#include <string.h>

#define LINE_BYTES 768
#define NAME_LIMIT 32  /* characters of an unknown name that are compared */
#define PREFIX_BYTES 3 /* a common beginning this long is no accident */
#define NAME_COLUMN 18
#define VALUE_COLUMN 24
#define HELP_INDENT 8
#define HELP_COLUMNS 80

static const char *origin_name(enum ps_origin origin) {
    switch (origin) {
    case PS_ORIGIN_DEFAULT:
        return "default";
    case PS_ORIGIN_CONF:
        return PS_ENVIRONMENT_PREFIX "CONF";
    case PS_ORIGIN_VARIABLE:
        break;
    }
    return "environment";
}

/* An option as its source writes it: POOLSHIM_HUGE, or huge in POOLSHIM_CONF. */
static void add_written(struct ps_text *text, const char *name, enum ps_origin origin) {
    if (origin != PS_ORIGIN_CONF) {
        ps_text_add(text, PS_ENVIRONMENT_PREFIX);
        ps_text_add(text, name);
        return;
    }
    for (const char *c = name; *c != '\0'; c++) {
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        ps_text_add_str(text, (struct ps_str){.data = &lower, .length = 1});
    }
}

static void add_name(struct ps_text *text, const struct ps_option *option, enum ps_origin origin) {
    add_written(text, option->name, origin);
}

static void start_line(struct ps_text *text, char *buffer, const struct ps_config_site *site) {
    ps_text_start(text, buffer, LINE_BYTES, site->message_fd);
    ps_text_add(text, "poolshim: ");
    if (site->origin == PS_ORIGIN_CONF) {
        ps_text_add(text, PS_ENVIRONMENT_PREFIX "CONF: ");
    }
}

static void end_line(struct ps_text *text) {
    ps_text_add(text, "\n");
    ps_text_flush(text);
}

void ps_config_report_value(const struct ps_config_site *site, const struct ps_option *option,
                            struct ps_str value, const struct ps_settings *settings,
                            struct ps_str reason) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    start_line(&text, buffer, site);
    add_name(&text, option, site->origin);
    ps_text_add(&text, ": ");
    ps_text_add_quoted(&text, value);
    ps_text_add(&text, " ");
    ps_text_add_str(&text, reason);
    ps_text_add(&text, "; using ");
    ps_value_print(option, settings, &text);
    end_line(&text);
}

void ps_config_report_unknown(const struct ps_config_site *site, struct ps_str name) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    start_line(&text, buffer, site);
    if (site->origin == PS_ORIGIN_VARIABLE) {
        ps_text_add(&text, PS_ENVIRONMENT_PREFIX);
    }
    char clean[NAME_LIMIT * 2];
    size_t length = name.length < sizeof clean ? name.length : sizeof clean;
    for (size_t i = 0; i < length; i++) {
        clean[i] = name.data[i] > 0x20 && name.data[i] < 0x7f ? name.data[i] : '?';
    }
    ps_text_add_str(&text, (struct ps_str){.data = clean, .length = length});
    ps_text_add(&text, length < name.length ? "..." : "");
    ps_text_add(&text, ": no such option, ignored; the nearest is ");
    add_name(&text, ps_config_nearest(name, site->origin), site->origin);
    end_line(&text);
}

void ps_config_report_malformed(const struct ps_config_site *site, struct ps_str part) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    start_line(&text, buffer, site);
    ps_text_add_quoted(&text, part);
    ps_text_add(&text, " is not name:value, ignored");
    end_line(&text);
}

void ps_config_report_contradiction(int message_fd, const struct ps_option *option,
                                    struct ps_str reason) {
    const struct ps_config_site site = {.message_fd = message_fd, .origin = PS_ORIGIN_DEFAULT};
    char buffer[LINE_BYTES];
    struct ps_text text;
    start_line(&text, buffer, &site);
    add_name(&text, option, site.origin);
    ps_text_add(&text, ": ");
    ps_text_add_str(&text, reason);
    end_line(&text);
}

void ps_config_report_former(const struct ps_config_site *site, const char *former,
                             const struct ps_option *option, const char *value) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    start_line(&text, buffer, site);
    add_written(&text, former, site->origin);
    ps_text_add(&text, ": is " PS_ENVIRONMENT_PREFIX);
    ps_text_add(&text, option->name);
    ps_text_add(&text, "=");
    ps_text_add(&text, value);
    ps_text_add(&text, " now; the next version will not read the old name");
    end_line(&text);
}

void ps_config_report_secure(int message_fd) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, message_fd);
    ps_text_add(&text, "poolshim: privileged program, " PS_ENVIRONMENT_PREFIX "* is ignored\n");
    ps_text_flush(&text);
}

void ps_config_report_stop(int message_fd, uint32_t fault_count) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, message_fd);
    ps_text_add(&text, "poolshim: " PS_ENVIRONMENT_PREFIX "STRICT: ");
    ps_text_add_number(&text, fault_count);
    ps_text_add(&text, fault_count == 1 ? " wrong setting" : " wrong settings");
    ps_text_add(&text, ", the program is not started; exit status ");
    ps_text_add_number(&text, PS_EXIT_STRICT);
    ps_text_add(&text, "\n");
    ps_text_flush(&text);
}

void ps_config_list_settings(int message_fd, const struct ps_settings *settings) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, message_fd);
    ps_text_add(&text, "poolshim " POOLSHIM_VERSION ": settings of process ");
    ps_text_add_number(&text, (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0));
    end_line(&text);
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        if (ps_options[i].type == PS_TYPE_PACKED) {
            continue;
        }
        ps_text_add(&text, "poolshim:   ");
        ps_text_add_left(&text, ps_options[i].name, NAME_COLUMN);
        char value[VALUE_COLUMN];
        struct ps_text cell;
        ps_text_start(&cell, value, sizeof value, PS_TEXT_TO_BUFFER);
        ps_value_print(&ps_options[i], settings, &cell);
        /* Class tables and file names can be longer than the column; they are printed whole. */
        if (cell.has_failed) {
            ps_value_print(&ps_options[i], settings, &text);
        } else {
            ps_text_add_str(&text, (struct ps_str){.data = value, .length = cell.length});
            ps_text_add_spaces(&text, VALUE_COLUMN - cell.length);
        }
        ps_text_add(&text, " (");
        ps_text_add(&text, origin_name((enum ps_origin)settings->origins[i]));
        ps_text_add(&text, ")");
        end_line(&text);
    }
}

/* The sentences of `help`, broken at blanks before HELP_COLUMNS. */
static void add_wrapped(struct ps_text *text, const char *help) {
    size_t column = HELP_COLUMNS;
    while (*help != '\0') {
        size_t word = strcspn(help, " ");
        if (column + 1 + word > HELP_COLUMNS) {
            ps_text_add(text, "\n");
            ps_text_add_spaces(text, HELP_INDENT);
            column = HELP_INDENT;
        } else {
            ps_text_add(text, " ");
            column++;
        }
        ps_text_add_str(text, (struct ps_str){.data = help, .length = word});
        column += word;
        help += word;
        help += *help == ' ';
    }
}

void ps_config_list_options(int message_fd) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, message_fd);
    ps_text_add(&text, "poolshim " POOLSHIM_VERSION ": options, each an environment variable\n");
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        ps_text_add(&text, "  " PS_ENVIRONMENT_PREFIX);
        ps_text_add(&text, option->name);
        ps_text_add(&text, "=<");
        ps_value_print_range(option, &text);
        ps_text_add(&text, option->unit[0] != '\0' ? " " : "");
        ps_text_add(&text, option->unit);
        ps_text_add(&text, ">");
        if (option->type != PS_TYPE_PACKED) {
            ps_text_add(&text, ", default ");
            ps_value_print_default(option, &text);
        }
        add_wrapped(&text, option->help);
        end_line(&text);
    }
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/*
 * Edit distance with insertion, deletion, replacement and the swap of neighbours, which is the
 * commonest slip. Both names at most NAME_LIMIT long; three rows suffice for swaps.
 */
static size_t edit_distance(struct ps_str a, const char *b, size_t b_length) {
    size_t rows[3][NAME_LIMIT + 1];
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a.length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = upper(a.data[i - 1]);
            row[j] = smaller(smaller(row[j - 1], above[j]) + 1, above[j - 1] + (x != b[j - 1]));
            if (i > 1 && j > 1 && x == b[j - 2] && upper(a.data[i - 2]) == b[j - 1]) {
                row[j] = smaller(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[a.length % 3][b_length];
}

static size_t common_prefix(struct ps_str a, const char *b) {
    size_t length = 0;
    while (length < a.length && b[length] != '\0' && upper(a.data[length]) == b[length]) {
        length++;
    }
    return length;
}

/* SMALL means SMALL_MAX, though fewer letters would have to change for STATS. */
size_t ps_config_name_distance(struct ps_str name, const char *option) {
    size_t option_length = smaller(strlen(option), NAME_LIMIT);
    name.length = smaller(name.length, NAME_LIMIT);
    size_t shorter = smaller(name.length, option_length);
    if (shorter >= PREFIX_BYTES && common_prefix(name, option) == shorter) {
        return name.length != option_length;
    }
    return edit_distance(name, option, option_length);
}

const struct ps_option *ps_config_nearest(struct ps_str name, enum ps_origin origin) {
    const struct ps_option *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        if (origin == PS_ORIGIN_CONF && option->type == PS_TYPE_PACKED) {
            continue;
        }
        size_t distance = ps_config_name_distance(name, option->name);
        bool is_longer = distance == nearest_distance &&
                         common_prefix(name, option->name) > common_prefix(name, nearest->name);
        if (distance < nearest_distance || is_longer) {
            nearest = option;
            nearest_distance = distance;
        }
    }
    return nearest;
}
