/* SPDX-License-Identifier: MIT */
/*
 * Messages of the configuration on stderr: one line for each fault, and the listings. Owns nothing;
 * called by shim/config.c, and by `poolshim run` for its flags.
 */
#ifndef PS_SHIM_CONFIG_REPORT_H
#define PS_SHIM_CONFIG_REPORT_H

#include "shim/config.h"
#include "shim/text.h"

/* Source of a value; the two sources name options differently. */
struct ps_config_site {
    int message_fd;
    enum ps_origin origin;
};

/* `poolshim: POOLSHIM_THP: "yes" is not one of auto, always, never; using auto` */
void ps_config_report_value(const struct ps_config_site *site, const struct ps_option *option,
                            struct ps_str value, const struct ps_settings *settings,
                            struct ps_str reason);

/* Names the option with the nearest name. */
void ps_config_report_unknown(const struct ps_config_site *site, struct ps_str name);

/* Reports a part of POOLSHIM_CONF that is not name:value. */
void ps_config_report_malformed(const struct ps_config_site *site, struct ps_str part);

/* A setting that cannot hold beside another one: `poolshim: POOLSHIM_<option>: <reason>`. */
void ps_config_report_contradiction(int message_fd, const struct ps_option *option,
                                    struct ps_str reason);

void ps_config_report_secure(int message_fd);
void ps_config_report_stop(int message_fd, uint32_t fault_count);

/* VERBOSE: the settings in force and where each came from. */
void ps_config_list_settings(int message_fd, const struct ps_settings *settings);

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
