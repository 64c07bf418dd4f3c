/* SPDX-License-Identifier: MIT */
/*
 * Reading a made-up environment into settings, with the messages caught. One copy for each unit
 * test of the configuration; one thread.
 */
#ifndef PS_TESTS_UNIT_SHIM_CONFIG_READING_H
#define PS_TESTS_UNIT_SHIM_CONFIG_READING_H

#include "shim/config.h"
#include "tests/unit/shim/capture.h"

static struct ps_settings settings;
static struct capture messages;
static uint32_t faults;

/* Reads an environment given as separate entries. */
static inline void read_environment(char *const *environment) {
    capture_start(&messages);
    const struct ps_config_input input = {
        .environment = environment, .environment_file = "/nonexistent", .message_fd = messages.fd};
    faults = ps_config_read(&settings, &input);
    capture_end(&messages);
}

#define READ(...) read_environment((char *[]){__VA_ARGS__, NULL})

static inline void read_one(const char *name, const char *value) {
    char entry[8192];
    snprintf(entry, sizeof entry, "POOLSHIM_%s=%s", name, value);
    READ(entry);
}

static inline const char *in_force(enum ps_option_index index) {
    static char buffer[1024];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer - 1, PS_TEXT_TO_BUFFER);
    ps_value_print(&ps_options[index], &settings, &text);
    buffer[text.length] = '\0';
    return buffer;
}

#endif
