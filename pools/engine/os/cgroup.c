/* SPDX-License-Identifier: MIT */
/*
 * See cgroup.h. /proc/self/cgroup names the process's group in each hierarchy, relative to the root
 * of its namespace; /proc/self/mountinfo says which part of a hierarchy is mounted where. No locks:
 * one thread at a time, which owns the buffers below. They are in .bss, since the first malloc may
 * run on a small stack.
 */
#include "pools/engine/os/cgroup.h"

#include "pools/engine/os/syscall.h"

#include <string.h>

#define LINE_BYTES 8192 /* of mountinfo: the options of an overlay have up to a page */
#define VALUE_BYTES 256
#define MOUNT_FIELDS 6 /* before the optional ones */
#define MOUNT_ROOT 3
#define MOUNT_POINT 4

static PS_SPARSE char lines[LINE_BYTES];
/* A group's, under examination. */
static PS_SPARSE char directory[PS_CGROUP_PATH_BYTES];
/* The process's group that has the memory, in version 1 and in version 2; "": none. */
static PS_SPARSE char own_1[PS_CGROUP_PATH_BYTES];
static PS_SPARSE char own_2[PS_CGROUP_PATH_BYTES];

struct reading {
    const char *root;
    struct ps_cgroup *out;
};

/* To a text of PS_CGROUP_PATH_BYTES. */
static bool append(char *text, const char *more) {
    return ps_path_append(text, PS_CGROUP_PATH_BYTES, more);
}

static bool copy(char *text, const char *from) {
    text[0] = '\0';
    return append(text, from);
}

/* True when `word` is an entry of a list that commas separate. */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    while (list != NULL) {
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0')) {
            return true;
        }
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return false;
}

/* A line of /proc/self/cgroup: number:controllers:path. */
static void visit_group(void *context, char *line) {
    (void)context;
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL || path[1] != '/') {
        return;
    }
    *path++ = '\0';
    controllers++;
    if (controllers[0] == '\0') {
        (void)copy(own_2, path);
    } else if (has_word(controllers, "memory")) {
        (void)copy(own_1, path);
    }
}

/* Blanks, tabs, newlines and backslashes of a path are three octal digits in mountinfo. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        bool is_octal = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
                        from[2] <= '7' && from[3] >= '0' && from[3] <= '7';
        *to = is_octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0') : *from;
        from += is_octal ? 4 : 1;
    }
    *to = '\0';
}

/* The part of a group's path below the root of a mount. "": the mount point replaces the group,
 * which lies elsewhere, as in containers that see their own group as the root, or is not shown. */
static const char *below(const char *group, const char *mount_root) {
    size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    bool is_below = strncmp(group, mount_root, length) == 0 && group[length] == '/' &&
                    strncmp(group + length, "/..", 3) != 0;
    return is_below && strcmp(group + length, "/") != 0 ? group + length : "";
}

/* The number in a file of the directory; UINT64_MAX for "max", 0, garbage and no file. */
static uint64_t read_value(const char *name) {
    char text[VALUE_BYTES];
    size_t length = strlen(directory);
    uint64_t value = 0;
    if (!append(directory, name)) {
        return UINT64_MAX;
    }
    text[ps_file_read(directory, text, sizeof text - 1)] = '\0';
    directory[length] = '\0';
    const char *at = text;
    bool is_number = ps_file_number(&at, &value) && (*at == '\n' || *at == '\0') && value != 0;
    return is_number ? value : UINT64_MAX;
}

static void lower(struct ps_cgroup *out, const char *name, enum ps_cgroup_source source) {
    uint64_t value = read_value(name);
    if (value < out->limit_bytes) {
        out->limit_bytes = value;
        out->source = source;
        (void)copy(out->limited, directory);
    }
}

/* Reads the limits of a group and of its parents, up to the mount point. */
static void read_up(const struct reading *reading, const char *mount, const char *group,
                    bool is_version_2) {
    struct ps_cgroup *out = reading->out;
    char probe[1];
    if (!copy(directory, reading->root) || !append(directory, mount)) {
        return;
    }
    size_t shortest = strlen(directory);
    (void)append(directory, group);
    if (is_version_2 && out->pressure[0] == '\0' && copy(out->pressure, directory) &&
        (!append(out->pressure, "/memory.pressure") ||
         ps_file_read(out->pressure, probe, sizeof probe) == 0)) {
        out->pressure[0] = '\0';
    }
    for (;;) { /* ends: the directory gets shorter */
        if (is_version_2) {
            lower(out, "/memory.max", PS_CGROUP_MAX);
            lower(out, "/memory.high", PS_CGROUP_HIGH);
        } else {
            lower(out, "/memory.limit_in_bytes", PS_CGROUP_LIMIT);
        }
        char *slash = strrchr(directory + shortest, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* Takes the word at *rest off it. */
static char *take_word(char **rest) {
    char *word = *rest;
    char *end = strchr(word, ' ');
    *rest = end != NULL ? end + 1 : word + strlen(word);
    if (end != NULL) {
        *end = '\0';
    }
    return word;
}

/* A line of /proc/self/mountinfo: six words, some optional ones, "-", type, source, options. */
static void visit_mount(void *context, char *line) {
    char *words[MOUNT_FIELDS];
    char *tail = strstr(line, " - ");
    if (tail == NULL) {
        return;
    }
    *tail = '\0';
    tail += 3;
    const char *type = take_word(&tail);
    (void)take_word(&tail);
    bool is_version_2 = strcmp(type, "cgroup2") == 0;
    bool is_version_1 = strcmp(type, "cgroup") == 0 && has_word(tail, "memory");
    const char *group = is_version_2 ? own_2 : own_1;
    if ((!is_version_1 && !is_version_2) || group[0] == '\0') {
        return;
    }
    for (size_t i = 0; i < MOUNT_FIELDS; i++) {
        words[i] = take_word(&line);
    }
    unescape(words[MOUNT_ROOT]);
    unescape(words[MOUNT_POINT]);
    read_up(context, words[MOUNT_POINT], below(group, words[MOUNT_ROOT]), is_version_2);
}

/* The lines of a file below the root. */
static void visit_file(struct reading *reading, const char *name, ps_file_visitor *visit) {
    if (copy(directory, reading->root) && append(directory, name)) {
        ps_file_lines(directory, lines, sizeof lines, visit, reading);
    }
}

void ps_cgroup_read(const char *root, struct ps_cgroup *out) {
    struct reading reading = {.root = root, .out = out};
    out->limit_bytes = UINT64_MAX;
    out->source = PS_CGROUP_NONE;
    out->pressure[0] = '\0';
    out->limited[0] = '\0';
    own_1[0] = '\0';
    own_2[0] = '\0';
    visit_file(&reading, "/proc/self/cgroup", visit_group);
    visit_file(&reading, "/proc/self/mountinfo", visit_mount);
}

uint32_t ps_cgroup_pressure(const struct ps_cgroup *group) {
    static const char key[] = "some avg10=";
    char text[VALUE_BYTES];
    uint64_t whole;
    uint64_t hundredths;
    if (group->pressure[0] == '\0') {
        return 0;
    }
    text[ps_file_read(group->pressure, text, sizeof text - 1)] = '\0';
    if (strncmp(text, key, sizeof key - 1) != 0) {
        return 0;
    }
    const char *at = text + sizeof key - 1;
    if (!ps_file_number(&at, &whole) || whole > 100 || *at++ != '.') {
        return 0;
    }
    const char *fraction = at;
    bool is_number = ps_file_number(&at, &hundredths) && at == fraction + 2;
    return is_number ? (uint32_t)(100 * whole + hundredths) : 0;
}

/* ---- usage ---- */

struct cache {
    const char *active; /* the words before the figures of the page cache's two lists */
    const char *inactive;
    uint64_t bytes;
};

static void visit_stat(void *context, char *line) {
    struct cache *cache = context;
    char *space = strchr(line, ' ');
    uint64_t value = 0;
    if (space == NULL) {
        return;
    }
    *space = '\0';
    const char *at = space + 1;
    if ((strcmp(line, cache->active) == 0 || strcmp(line, cache->inactive) == 0) &&
        ps_file_number(&at, &value)) {
        cache->bytes += value;
    }
}

uint64_t ps_cgroup_usage(const struct ps_cgroup *group, uint64_t enough) {
    bool is_version_2 = group->source != PS_CGROUP_LIMIT;
    if (group->limited[0] == '\0' || !copy(directory, group->limited)) {
        return 0;
    }
    uint64_t usage = read_value(is_version_2 ? "/memory.current" : "/memory.usage_in_bytes");
    if (usage == UINT64_MAX || usage < enough) {
        return usage == UINT64_MAX ? 0 : usage;
    }
    struct cache cache = {.active = is_version_2 ? "active_file" : "total_active_file",
                          .inactive = is_version_2 ? "inactive_file" : "total_inactive_file"};
    if (append(directory, "/memory.stat")) {
        ps_file_lines(directory, lines, sizeof lines, visit_stat, &cache);
    }
    return usage - (cache.bytes < usage ? cache.bytes : usage);
}
