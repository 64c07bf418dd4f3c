/* SPDX-License-Identifier: MIT */
/*
 * The configuration of the shim: reads the environment once, reports its faults on stderr, and
 * freezes the result. Owns the process's one struct ps_settings. Called by the start-up code from
 * the first malloc, possibly before libc is initialised, under the initialisation lock; allocates
 * nothing, calls no stdio, leaves errno alone. Afterwards the settings are read-only.
 */
#ifndef PS_SHIM_CONFIG_H
#define PS_SHIM_CONFIG_H

#include "pools/engine/base/config.h"
#include "shim/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_EXIT_STRICT 78          /* EX_CONFIG of sysexits.h */
#define PS_SETTING_PATH_BYTES 4096 /* the NUL included */

enum ps_option_index {
#define PS_OPTION(name, type, unit, range, field, help) PS_OPTION_##name,
#include "shim/config.def"
#undef PS_OPTION
    PS_OPTION_COUNT
};

enum ps_option_type {
    PS_TYPE_SIZE,   /* bytes, with an optional K, M, G, KiB, MiB or GiB; size_t */
    PS_TYPE_LIMIT,  /* a size as above, a percentage or a word that means off; ps_limit_setting */
    PS_TYPE_COUNT,  /* decimal; uint32_t */
    PS_TYPE_WORD,   /* one word of a list; an enum */
    PS_TYPE_HUGE,   /* likewise, the last one perhaps with a colon and a size; ps_huge_setting */
    PS_TYPE_SWITCH, /* 0, 1, true, false, on, off; bool */
    PS_TYPE_LIST,   /* sizes separated by commas; class_bytes and class_count */
    PS_TYPE_REPORT, /* a switch or a file name; stats_target and stats_path */
    PS_TYPE_PATH,   /* a file name, or a word that means off; char[PS_SETTING_PATH_BYTES] */
    PS_TYPE_PACKED, /* name:value pairs */
};

struct ps_option {
    const char *name;
    enum ps_option_type type;
    const char *unit;
    const char *range;
    size_t offset; /* of the field in struct ps_settings */
    const char *help;
};

extern const struct ps_option ps_options[PS_OPTION_COUNT];

enum ps_origin {
    PS_ORIGIN_DEFAULT,
    PS_ORIGIN_CONF,
    PS_ORIGIN_VARIABLE,
};

enum ps_background {
    PS_BACKGROUND_AUTO,
    PS_BACKGROUND_NEVER,
    PS_BACKGROUND_ALWAYS,
};

enum ps_stats_target {
    PS_STATS_OFF,
    PS_STATS_STDERR,
    PS_STATS_FILE,
};

/* In the order of the option's words. */
enum ps_dump_signal {
    PS_DUMP_OFF,
    PS_DUMP_HUP,
    PS_DUMP_QUIT,
    PS_DUMP_USR1,
    PS_DUMP_USR2,
    PS_DUMP_WINCH,
};

struct ps_settings {
    struct ps_config engine;
    enum ps_background background;
    enum ps_stats_target stats_target;
    uint32_t stats_every_s; /* 0: at the exit only */
    enum ps_dump_signal dump_signal;
    bool verbose;
    bool strict;
    bool help;
    bool profile_peak;
    uint32_t profile_every_s;
    uint32_t token_max;                      /* 0: not known */
    uint8_t origins[PS_OPTION_COUNT];        /* enum ps_origin of each option */
    char stats_path[PS_SETTING_PATH_BYTES];  /* as given, % sequences included; for PS_STATS_FILE */
    char record_path[PS_SETTING_PATH_BYTES]; /* likewise; "": nothing is recorded */
    char trace_path[PS_SETTING_PATH_BYTES];  /* likewise; "": no trace */
    char profile_path[PS_SETTING_PATH_BYTES]; /* likewise; "": no profile */
    char flight_path[PS_SETTING_PATH_BYTES];  /* likewise; "": no flight record */
};

/* Input of ps_config_read; separate so that tests need no process of their own. */
struct ps_config_input {
    char *const *environment;     /* NULL: not set up yet, read the file */
    const char *environment_file; /* /proc/self/environ */
    bool is_secure;               /* AT_SECURE: the environment is ignored */
    int message_fd;
    /* Compares the settings with the machine, as ps_config_settle_huge does; NULL: they are left.
     */
    uint32_t (*settle)(struct ps_settings *settings, int message_fd);
};

/*
 * Fills *settings, which is zeroed or was filled before, from defaults and input. Prints one line
 * for each fault, and the listings that VERBOSE and HELP request. Returns the number of faults; the
 * caller acts on STRICT. One thread at a time.
 */
uint32_t ps_config_read(struct ps_settings *settings, const struct ps_config_input *input);

/* ---- the settings of the process (config_process.c) ---- */

/*
 * Chooses the size of the pages of POOLSHIM_HUGE=hugetlb, and turns it off where the machine has
 * none of the size, or HARDEN is on. One line for each fault, also where no page is set aside:
 * returns their number.
 */
uint32_t ps_config_settle_huge(struct ps_settings *settings, int message_fd);

/*
 * Reads the process's environment into *out and the static settings. Called exactly once. Does
 * not return when there are faults and STRICT is on: the process ends with PS_EXIT_STRICT.
 */
void ps_shim_configure(struct ps_config *out, char *const *environment);

/* The frozen settings; all defaults of zero before ps_shim_configure. Any thread. */
const struct ps_settings *ps_shim_settings(void);

/* ---- numbers (config_number.c) ---- */

enum ps_number_fault {
    PS_NUMBER_FINE,
    PS_NUMBER_MALFORMED,
    PS_NUMBER_OVERFLOW,
};

/* Decimal digits only. */
enum ps_number_fault ps_value_parse_count(struct ps_str text, uint64_t *out);

/* Digits and a unit in any case: K, Ki and KiB are 1024 bytes, KB is 1000, and so M and G. With a
 * unit there may be up to nine digits after a point; fractions of a byte are dropped. */
enum ps_number_fault ps_value_parse_size(struct ps_str text, uint64_t *bytes);

/* A size that huge pages can have: a power of two, PS_HUGETLB_BYTES_LEAST to _MOST. */
enum ps_number_fault ps_value_parse_huge_size(struct ps_str text, uint64_t *bytes);

/* 0 to 100, perhaps with digits after a point, which are dropped; PS_NUMBER_OVERFLOW above. */
enum ps_number_fault ps_value_parse_percent(struct ps_str text, uint64_t *percent);

/* ---- one option: text to field and back (config_value.c) ---- */

/*
 * Stores the value in its field. False: the settings are unchanged, and `reason` is the end of a
 * sentence that begins with the option and the quoted value ("is not one of auto, ...").
 */
bool ps_value_parse(const struct ps_option *option, struct ps_str value,
                    struct ps_settings *settings, struct ps_text *reason);

/* The value in force, as a user would write it; "built-in" for the engine's own. */
void ps_value_print(const struct ps_option *option, const struct ps_settings *settings,
                    struct ps_text *text);

/* The permitted values of the option: "8..64KiB", "abort, warn, ignore". */
void ps_value_print_range(const struct ps_option *option, struct ps_text *text);

/* ---- messages on stderr, and the listings (config_report.c) ---- */

/* Source of a value; the two sources name options differently. */
struct ps_config_site {
    int message_fd;
    enum ps_origin origin;
};

/* `poolshim: POOLSHIM_FOREIGN: "yes" is not one of abort, warn, ignore; using abort` */
void ps_config_report_value(const struct ps_config_site *site, const struct ps_option *option,
                            struct ps_str value, const struct ps_settings *settings,
                            struct ps_str reason);

/* Names the option with the nearest name. */
void ps_config_report_unknown(const struct ps_config_site *site, struct ps_str name);

/* Reports a part of POOLSHIM_CONF that is not name:value. */
void ps_config_report_malformed(const struct ps_config_site *site, struct ps_str part);

/* A setting that contradicts another one: `poolshim: POOLSHIM_<option>: <reason>`. */
void ps_config_report_contradiction(int message_fd, const struct ps_option *option,
                                    struct ps_str reason);

/* An option by its former name: `poolshim: POOLSHIM_THP: is POOLSHIM_HUGE=<value> now`. */
void ps_config_report_former(const struct ps_config_site *site, const char *former,
                             const struct ps_option *option, const char *value);

void ps_config_report_secure(int message_fd);
void ps_config_report_stop(int message_fd, uint32_t fault_count);

/* VERBOSE: the settings in force and where each came from. */
void ps_config_list_settings(int message_fd, const struct ps_settings *settings);

/* The value that is in force where nothing sets it, for an option that is not PACKED. */
void ps_value_print_default(const struct ps_option *option, struct ps_text *text);

/* HELP: all options, their ranges, defaults and meanings. */
void ps_config_list_options(int message_fd);

/*
 * Distance of a misspelt name, in any case, from an option's. A name with the same beginning is
 * near in any case.
 */
size_t ps_config_name_distance(struct ps_str name, const char *option);

/* The option whose name is nearest by edit distance; never PACKED when `in_conf`. */
const struct ps_option *ps_config_nearest(struct ps_str name, enum ps_origin origin);

#endif
