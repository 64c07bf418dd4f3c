/* SPDX-License-Identifier: MIT */
/*
 * The settings of `poolshim run`: a flag per row of shim/config.def, checked by the library's own
 * parsers, which are linked in. Owns the given values, as text: the library in the
 * command reads them again.
 */
#include "scripts/native/run.h"

#include "shim/config.h"
#include "shim/environment.h"
#include "shim/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REASON_BYTES = 256, HELP_INDENT = 8, HELP_COLUMNS = 96 };

struct setting {
    const char *value; /* NULL: not given */
    bool is_from_flag; /* not from a profile */
};

static struct setting settings[PS_OPTION_COUNT];

/* HELP would print the list of options before the command runs; `poolshim run --help` has it. */
static bool has_flag(const struct ps_option *option) {
    return option != &ps_options[PS_OPTION_HELP];
}

static bool may_lack_value(const struct ps_option *option) {
    return option->type == PS_TYPE_SWITCH || option->type == PS_TYPE_REPORT;
}

/* SIZE_CLASSES as size-classes, or with another separator. */
static char *flag_name(const struct ps_option *option, char separator) {
    char *name = run_text("%s", option->name);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '_' ? separator : (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    return name;
}

/* Dies unless the library would take the value; `shown` is what the user called the option. */
static void check_value(const struct ps_option *option, const char *shown, const char *value) {
    static struct ps_settings scratch;
    char buffer[REASON_BYTES];
    struct ps_text reason;
    struct ps_str text = ps_str_trim(ps_str_of(value));
    ps_text_start(&reason, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    if (text.length == 0) {
        run_die(EXIT_OWN_FAILURE, "%s needs a value", shown);
    }
    /* The packed variable is checked with all the others, by run_options_finish. */
    if (option->type != PS_TYPE_PACKED && !ps_value_parse(option, text, &scratch, &reason)) {
        run_die(EXIT_OWN_FAILURE, "%s: \"%.*s\" %.*s", shown, (int)text.length, text.data,
                (int)reason.length, buffer);
    }
}

static void give(const struct ps_option *option, const char *shown, const char *value,
                 bool is_from_flag) {
    struct setting *setting = &settings[option - ps_options];
    check_value(option, shown, value);
    if (is_from_flag || !setting->is_from_flag) {
        *setting = (struct setting){.value = value, .is_from_flag = is_from_flag};
    }
}

int run_options_take(const char *word, const char *next) {
    if (strncmp(word, "--", 2) != 0) {
        return 0;
    }
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        char *shown = run_text("--%s", flag_name(option, '-'));
        if (!has_flag(option) || strlen(shown) != length || strncmp(word, shown, length) != 0) {
            continue;
        }
        if (word[length] == '=') {
            give(option, shown, word + length + 1, true);
            return 1;
        }
        if (may_lack_value(option)) {
            give(option, shown, "1", true);
            return 1;
        }
        if (next == NULL) {
            run_die(EXIT_OWN_FAILURE, "%s needs a value", shown);
        }
        give(option, shown, next, true);
        return 2;
    }
    return 0;
}

const char *run_options_first(void) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        if (settings[i].value != NULL) {
            return flag_name(&ps_options[i], '-');
        }
    }
    return NULL;
}

/* ---- all of them together ---- */

/* The library's first complaint about these variables, without its beginning and its remedy. */
static void check_together(char *const *assignments) {
    static struct ps_settings scratch;
    int ends[2];
    if (pipe(ends) != 0) {
        run_die(EXIT_OWN_FAILURE, "pipe: %s", strerror(errno));
    }
    const struct ps_config_input input = {.environment = assignments, .message_fd = ends[1]};
    uint32_t fault_count = ps_config_read(&scratch, &input);
    close(ends[1]);
    if (fault_count > 0) {
        char message[1024];
        ssize_t got = read(ends[0], message, sizeof message - 1);
        message[got < 0 ? 0 : got] = '\0';
        message[strcspn(message, "\n")] = '\0';
        char *remedy = strstr(message, "; using ");
        if (remedy != NULL) {
            *remedy = '\0';
        }
        const char *begin = strncmp(message, "poolshim: ", 10) == 0 ? message + 10 : message;
        run_die(EXIT_OWN_FAILURE, "%s", begin);
    }
    close(ends[0]);
}

char *const *run_options_finish(void) {
    static char *assignments[PS_OPTION_COUNT + 1];
    size_t count = 0;
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        if (settings[i].value != NULL) {
            assignments[count++] =
                run_text(PS_ENVIRONMENT_PREFIX "%s=%s", ps_options[i].name, settings[i].value);
        }
    }
    check_together(assignments);
    return assignments;
}

/* The library writes to a descriptor and ignores what becomes of it; stdio notices a full disk. */
void run_options_list(void) {
    static struct ps_settings all;
    /* The function of that name is of glibc 2.27; this program needs no more than 2.17. */
    int fd = (int)syscall(SYS_memfd_create, "settings", MFD_CLOEXEC);
    if (fd < 0) {
        run_die(EXIT_OWN_FAILURE, "memfd_create: %s", strerror(errno));
    }
    const struct ps_config_input input = {.environment = environ, .message_fd = fd};
    (void)ps_config_read(&all, &input);
    if (!all.verbose) {
        ps_config_list_settings(fd, &all);
    }
    char part[BUFSIZ];
    ssize_t got;
    for (off_t at = 0; (got = pread(fd, part, sizeof part, at)) > 0; at += got) {
        fwrite(part, 1, (size_t)got, stdout);
    }
    close(fd);
}

/* ---- profiles ---- */

/*
 * The value of `name = value` in one line of TOML: a string in double quotes, a number, a word, or
 * an array on one line. Cut out in place; NULL if the line is none of these.
 */
static char *profile_value(char *text) {
    text += strspn(text, " \t");
    char closing = text[0] == '"' ? '"' : text[0] == '[' ? ']' : '\0';
    if (closing == '\0') {
        text[strcspn(text, " \t#\r\n")] = '\0';
        return text;
    }
    char *end = strchr(++text, closing);
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    return text;
}

/* size_classes before the first table, POOLSHIM_SIZE_CLASSES in [environment]. */
static const struct ps_option *profile_option(const char *name, size_t length, bool is_variable) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        char *known = is_variable ? run_text(PS_ENVIRONMENT_PREFIX "%s", option->name)
                                  : flag_name(option, '_');
        if (has_flag(option) && strlen(known) == length && strncmp(name, known, length) == 0) {
            return option;
        }
    }
    return NULL;
}

/* One line of a profile; true if it was a setting. */
static bool read_profile_line(const char *path, unsigned number, char *line, bool is_variable) {
    const char *name = line + strspn(line, " \t");
    size_t length = strcspn(name, " \t=#\r\n");
    char *equals = strchr(line, '=');
    const struct ps_option *option = profile_option(name, length, is_variable);
    char *shown = run_text("%s, line %u: %.*s", path, number, (int)length, name);
    if (option == NULL && is_variable &&
        strncmp(name, PS_ENVIRONMENT_PREFIX, sizeof PS_ENVIRONMENT_PREFIX - 1) == 0) {
        run_die(EXIT_OWN_FAILURE, "%s: no such option", shown);
    }
    if (option == NULL || equals == NULL) {
        return false;
    }
    char *value = profile_value(equals + 1);
    if (value == NULL) {
        run_die(EXIT_OWN_FAILURE, "%s: the value does not end", shown);
    }
    give(option, shown, run_text("%s", value), false);
    return true;
}

void run_options_read_profile(const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        run_die(EXIT_OWN_FAILURE, "%s: %s", path, strerror(errno));
    }
    static const char variables[] = "[environment]";
    char *line = NULL;
    size_t capacity = 0;
    unsigned found_count = 0;
    bool is_variable = false;
    bool is_read = true; /* the other tables are about the profile itself */
    for (unsigned number = 1; getline(&line, &capacity, file) > 0; number++) {
        const char *begin = line + strspn(line, " \t");
        if (begin[0] == '[') {
            is_read = is_variable = strncmp(begin, variables, sizeof variables - 1) == 0;
        } else if (is_read) {
            found_count += read_profile_line(path, number, line, is_variable);
        }
    }
    if (ferror(file)) {
        run_die(EXIT_OWN_FAILURE, "%s: %s", path, strerror(errno));
    }
    fclose(file);
    if (found_count == 0) {
        run_die(EXIT_OWN_FAILURE, "%s: no setting in it, such as size_classes = \"16,32\"", path);
    }
}

/* ---- help ---- */

static const char *value_name(const struct ps_option *option) {
    switch (option->type) {
    case PS_TYPE_SIZE:
        return " SIZE";
    case PS_TYPE_LIMIT:
        return " SIZE|PERCENT";
    case PS_TYPE_COUNT:
        return " N";
    case PS_TYPE_WORD:
    case PS_TYPE_HUGE:
        return " WORD";
    case PS_TYPE_SWITCH:
        return "[=off]";
    case PS_TYPE_LIST:
        return " SIZE,SIZE,...";
    case PS_TYPE_REPORT:
        return "[=FILE]";
    case PS_TYPE_PATH:
        return " FILE";
    case PS_TYPE_PACKED:
        break;
    }
    return " NAME:VALUE,...";
}

/* Sentences, broken at blanks. */
static void print_wrapped(const char *help) {
    size_t column = HELP_COLUMNS;
    while (*help != '\0') {
        size_t word = strcspn(help, " ");
        if (column + 1 + word > HELP_COLUMNS) {
            printf("\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, help);
        column += word;
        help += word + (help[word] == ' ');
    }
    puts("");
}

void run_options_print_help(void) {
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        const struct ps_option *option = &ps_options[i];
        if (!has_flag(option)) {
            continue;
        }
        char buffer[REASON_BYTES];
        struct ps_text range;
        ps_text_start(&range, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
        if (!may_lack_value(option) && option->type != PS_TYPE_PACKED) {
            ps_text_add(&range, "  (");
            ps_value_print_range(option, &range);
            ps_text_add(&range, ")");
        }
        printf("  --%s%s%.*s", flag_name(option, '-'), value_name(option), (int)range.length,
               buffer);
        print_wrapped(option->help);
    }
}

const char *run_options_nearest(const char *word, const char *const *own) {
    char *name = run_text("%s", word + strspn(word, "-"));
    name[strcspn(name, "=")] = '\0';
    const char *nearest = own[0];
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < PS_OPTION_COUNT || own[i - PS_OPTION_COUNT] != NULL; i++) {
        bool is_setting = i < PS_OPTION_COUNT;
        if (is_setting && !has_flag(&ps_options[i])) {
            continue;
        }
        const char *flag = is_setting ? flag_name(&ps_options[i], '-') : own[i - PS_OPTION_COUNT];
        char *upper = run_text("%s", flag);
        for (char *c = upper; *c != '\0'; c++) {
            *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        }
        size_t distance = ps_config_name_distance(ps_str_of(name), upper);
        if (distance < nearest_distance) {
            nearest = flag;
            nearest_distance = distance;
        }
    }
    return nearest;
}
