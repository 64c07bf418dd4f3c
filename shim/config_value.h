/* SPDX-License-Identifier: MIT */
/*
 * One option's value: text to field and back. Owns nothing. Called by shim/config.c,
 * shim/config_report.c and tests.
 */
#ifndef PS_SHIM_CONFIG_VALUE_H
#define PS_SHIM_CONFIG_VALUE_H

#include "shim/config.h"
#include "shim/text.h"

#include <stdbool.h>
#include <stdint.h>

enum ps_number_fault {
    PS_NUMBER_FINE,
    PS_NUMBER_MALFORMED,
    PS_NUMBER_OVERFLOW,
};

/* Decimal digits only. */
enum ps_number_fault ps_value_parse_count(struct ps_str text, uint64_t *out);

/* Digits and K, M, G, KiB, MiB or GiB in any case, all of them powers of 1024. */
enum ps_number_fault ps_value_parse_size(struct ps_str text, uint64_t *bytes);

/*
 * Stores the value in its field. False: the settings are unchanged, and `reason` holds the end of
 * a sentence that begins with the option and the quoted value ("is not one of auto, ...").
 */
bool ps_value_parse(const struct ps_option *option, struct ps_str value,
                    struct ps_settings *settings, struct ps_text *reason);

/* The value in force, as a user would write it; "built-in" for the engine's own. */
void ps_value_print(const struct ps_option *option, const struct ps_settings *settings,
                    struct ps_text *text);

/* The permitted values of the option: "8..64KiB", "auto, always, never". */
void ps_value_print_range(const struct ps_option *option, struct ps_text *text);

#endif
