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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_EXIT_STRICT 78          /* EX_CONFIG of sysexits.h */
#define PS_SETTING_PATH_BYTES 4096 /* the NUL included */

enum ps_option_index {
#define PS_OPTION(name, type, unit, default_text, range, field, help) PS_OPTION_##name,
#include "shim/config.def"
#undef PS_OPTION
    PS_OPTION_COUNT
};

enum ps_option_type {
    PS_TYPE_SIZE,   /* bytes, with an optional K, M, G, KiB, MiB or GiB; size_t */
    PS_TYPE_LIMIT,  /* a size as above, a percentage or a word that means off; ps_limit_setting */
    PS_TYPE_COUNT,  /* decimal; uint32_t */
    PS_TYPE_WORD,   /* one word of a list; an enum */
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
    const char *default_text;
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

struct ps_settings {
    struct ps_config engine;
    enum ps_background background;
    enum ps_stats_target stats_target;
    bool verbose;
    bool strict;
    bool help;
    uint8_t origins[PS_OPTION_COUNT];        /* enum ps_origin of each option */
    char stats_path[PS_SETTING_PATH_BYTES];  /* as given, % sequences included; for PS_STATS_FILE */
    char record_path[PS_SETTING_PATH_BYTES]; /* likewise; "": nothing is recorded */
    char profile_path[PS_SETTING_PATH_BYTES]; /* likewise; "": no profile */
};

/* Input of ps_config_read; separate so that tests need no process of their own. */
struct ps_config_input {
    char *const *environment;     /* NULL: not set up yet, read the file */
    const char *environment_file; /* /proc/self/environ */
    bool is_secure;               /* AT_SECURE: the environment is ignored */
    int message_fd;
};

/*
 * Fills *settings from defaults and input. Prints one line for each fault, and the listings that
 * VERBOSE and HELP request. Returns the number of faults; the caller acts on STRICT.
 * One thread at a time.
 */
uint32_t ps_config_read(struct ps_settings *settings, const struct ps_config_input *input);

/*
 * Reads this process's environment into *out and the static settings. Called exactly once. Does
 * not return when there are faults and STRICT is on: the process ends with PS_EXIT_STRICT.
 */
void ps_shim_configure(struct ps_config *out);

/* The frozen settings; all defaults of zero before ps_shim_configure. Any thread. */
const struct ps_settings *ps_shim_settings(void);

#endif
