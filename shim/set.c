/* SPDX-License-Identifier: MIT */
/*
 * poolshim_set: the settings that may change while the program runs. The frozen settings of
 * shim/config.h do not change after the start. Any thread; the locks are those of the layers.
 */
#include "pools/include/poolshim/poolshim.h"

#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/profile/demand.h"
#include "shim/config.h"

#include <errno.h>
#include <string.h>

#define PREFIX "POOLSHIM_"
#define REASON_BYTES 256

static char folded(char c) { return c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 32) : c; }

static bool is_name_of(const struct ps_option *option, const char *name) {
    const char *wanted = option->name;
    while (*wanted != '\0' && folded(*name) == *wanted) {
        name++;
        wanted++;
    }
    return *wanted == '\0' && *name == '\0';
}

/* The option of a name, in the form of a variable or of the command's options; NULL: none. */
static const struct ps_option *find(const char *name) {
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) == 0) {
        name += sizeof PREFIX - 1;
    }
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        if (is_name_of(&ps_options[i], name)) {
            return &ps_options[i];
        }
    }
    return NULL;
}

static bool may_change(const struct ps_option *option) {
    enum ps_option_index index = (enum ps_option_index)(option - ps_options);
    return index == PS_OPTION_PURGE_DELAY_MS || index == PS_OPTION_CACHE_MAX ||
           index == PS_OPTION_LIMIT || index == PS_OPTION_THREAD_BYTES ||
           index == PS_OPTION_PROFILE_INTERVAL;
}

/* Returns 0 or an errno. */
static int apply(enum ps_option_index index, const struct ps_config *config) {
    switch (index) {
    case PS_OPTION_PURGE_DELAY_MS:
        ps_retention_set_delay(config->purge_delay_ms);
        return 0;
    case PS_OPTION_CACHE_MAX:
        return ps_mapping_set_cache_max(config->cache_max_bytes) ? 0 : ENOTSUP;
    case PS_OPTION_LIMIT:
        ps_limit_set(&config->limit);
        return 0;
    case PS_OPTION_PROFILE_INTERVAL:
        return ps_demand_set_interval(config->profile_interval_bytes) ? 0 : ENOTSUP;
    case PS_OPTION_THREAD_BYTES:
        return ps_counting_want(config->thread_bytes) ? 0 : ENOTSUP;
    default:
        return EPERM;
    }
}

static int set(const char *name, const char *value) {
    char buffer[REASON_BYTES];
    struct ps_text reason;
    struct ps_settings settings = {.verbose = false};
    if (name == NULL || value == NULL) {
        return EINVAL;
    }
    const struct ps_option *option = find(name);
    if (option == NULL) {
        return ENOENT;
    }
    if (!may_change(option)) {
        return EPERM;
    }
    if (!ps_engine_has_started()) {
        ps_engine_start(); /* which would undo the change */
    }
    ps_text_start(&reason, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    struct ps_str text = ps_str_trim(ps_str_of(value));
    if (text.length == 0 || !ps_value_parse(option, text, &settings, &reason)) {
        return EINVAL;
    }
    return apply((enum ps_option_index)(option - ps_options), &settings.engine);
}

int poolshim_set(const char *name, const char *value) {
    int saved_errno = errno;
    int error = set(name, value);
    errno = error != 0 ? error : saved_errno;
    return error != 0 ? -1 : 0;
}
