/* SPDX-License-Identifier: MIT */
/*
 * The rows of mallctl.def, and how they are found. A MIB of ours: a component that is a name is the
 * number of the first row that begins with the components up to it; one that is an index is that
 * index. So the last component of a whole name is its row.
 */
#include "shim/mallctl.h"

#include <string.h>

#define PS_CTL(name, type, access, value, argument, text)                                          \
    {name, PS_MALLCTL_##type, PS_MALLCTL_##access, PS_MALLCTL_OF_##value, argument},
#define ZERO(name, type) PS_CTL(name, type, READ, CONSTANT, 0, "")
#define PS_CTL_LOCK(prefix)                                                                        \
    ZERO(prefix ".num_ops", UINT64)                                                                \
    ZERO(prefix ".num_wait", UINT64)                                                               \
    ZERO(prefix ".num_spin_acq", UINT64)                                                           \
    ZERO(prefix ".num_owner_switch", UINT64)                                                       \
    ZERO(prefix ".total_wait_time", UINT64)                                                        \
    ZERO(prefix ".max_wait_time", UINT64)                                                          \
    ZERO(prefix ".max_num_thds", UINT32)
#define HUGE_ROW(name, value) PS_CTL(name, SIZE, READ, value, PS_ARENA_ZERO, "")
#define PS_CTL_HUGE(prefix, value)                                                                 \
    HUGE_ROW(prefix ".npageslabs_nonhuge", value)                                                  \
    HUGE_ROW(prefix ".npageslabs_huge", value)                                                     \
    HUGE_ROW(prefix ".nactive_nonhuge", value)                                                     \
    HUGE_ROW(prefix ".nactive_huge", value)                                                        \
    HUGE_ROW(prefix ".ndirty_nonhuge", value)                                                      \
    HUGE_ROW(prefix ".ndirty_huge", value)

const struct ps_mallctl_row ps_mallctl_rows[] = {
#include "shim/mallctl.def"
};
const size_t ps_mallctl_row_count = sizeof ps_mallctl_rows / sizeof ps_mallctl_rows[0];

const struct ps_mallctl_source ps_mallctl_sources[] = {
#define X(name, function) [PS_MALLCTL_OF_##name] = {{.read = ps_mallctl_read_##function}, NULL},
    PS_MALLCTL_READS(X)
#undef X
#define X(name, function)                                                                          \
    [PS_MALLCTL_OF_##name] = {{.read = ps_mallctl_read_##function}, ps_mallctl_write_##function},
        PS_MALLCTL_READ_AND_WRITTEN(X)
#undef X
#define X(name, function) [PS_MALLCTL_OF_##name] = {{NULL}, ps_mallctl_write_##function},
            PS_MALLCTL_WRITTEN(X)
#undef X
#define X(name, function) [PS_MALLCTL_OF_##name] = {{.call = ps_mallctl_call_##function}, NULL},
                PS_MALLCTL_CALLED(X)
#undef X
};

size_t ps_mallctl_bytes(uint8_t type) {
    static const uint8_t bytes[] = {
        [PS_MALLCTL_ACTION] = 0,
        [PS_MALLCTL_BOOL] = sizeof(bool),
        [PS_MALLCTL_UINT32] = sizeof(uint32_t),
        [PS_MALLCTL_UINT64] = sizeof(uint64_t),
        [PS_MALLCTL_SIZE] = sizeof(size_t),
        [PS_MALLCTL_INT64] = sizeof(int64_t),
        [PS_MALLCTL_TEXT] = sizeof(const char *),
        [PS_MALLCTL_POINTER] = sizeof(void *),
    };
    return bytes[type];
}

/* ---- components ---- */

/* The length of a component. */
static size_t span(const char *component) { return strcspn(component, "."); }

/* The component after one; at the end of the name: the end. */
static const char *next(const char *component) {
    component += span(component);
    return *component == '.' ? component + 1 : component;
}

/* The length of the first so many components of a row's name, without the last dot; 0: it has
 * fewer. */
static size_t prefix_length(const struct ps_mallctl_row *row, size_t count) {
    const char *end = row->name;
    for (size_t i = 0; i < count; i++) {
        if (*end == '\0') {
            return 0;
        }
        end = next(end);
    }
    return (size_t)(end - row->name) - (*end != '\0');
}

static size_t count_components(const struct ps_mallctl_row *row) {
    size_t count = 0;
    for (const char *end = row->name; *end != '\0'; end = next(end)) {
        count++;
    }
    return count;
}

/* The number of the first row that has as many components in common with one. */
static size_t first_alike(size_t row, size_t components) {
    size_t length = prefix_length(&ps_mallctl_rows[row], components);
    const char *name = ps_mallctl_rows[row].name;
    while (row > 0) {
        const char *before = ps_mallctl_rows[row - 1].name;
        if (strncmp(before, name, length) != 0 || (before[length] != '.' && before[length] != 0)) {
            break;
        }
        row--;
    }
    return row;
}

/* Reads a component of decimal digits. False: it is none, or too large for any index. */
static bool read_index(const char *text, size_t length, size_t *index) {
    *index = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || *index > UINT32_MAX) {
            return false;
        }
        *index = *index * 10 + (size_t)(text[i] - '0');
    }
    return length != 0 && *index <= UINT32_MAX;
}

/* True if the row's name begins with the first `limit` components of a name; *count: how many these
 * are. indexes: those among them, at their places. */
static bool begins(const struct ps_mallctl_row *row, const char *name, size_t limit, size_t *count,
                   size_t *indexes) {
    const char *own = row->name;
    for (*count = 0; *count < limit && *name != '\0'; ++*count) {
        size_t length = span(name);
        if (*own == '#') {
            if (!read_index(name, length, &indexes[*count])) {
                return false;
            }
        } else if (length == 0 || length != span(own) || strncmp(own, name, length) != 0) {
            return false;
        }
        if (name[length] == '.' && name[length + 1] == '\0') {
            return false; /* ends with a dot */
        }
        own = next(own);
        name = next(name);
    }
    return *count != 0;
}

/* True for an index that the component of a row may have, by the figures that it is one of. */
static bool is_valid(const struct ps_mallctl_row *row, const size_t *indexes) {
    uint64_t unused;
    const struct ps_mallctl_source *source = &ps_mallctl_sources[row->value];
    bool has_reader = row->access != PS_MALLCTL_CALL && source->get.read != NULL;
    bool has_index = strchr(row->name, '#') != NULL;
    return !has_index || !has_reader || source->get.read(row->argument, indexes, &unused) == 0;
}

const struct ps_mallctl_row *ps_mallctl_find(const char *name, size_t *mib, size_t *length) {
    size_t limit = *length < PS_MALLCTL_DEPTH ? *length : PS_MALLCTL_DEPTH;
    size_t places[PS_MALLCTL_DEPTH] = {0};
    *length = 0;
    for (size_t i = 0; i < ps_mallctl_row_count && limit != 0; i++) {
        const struct ps_mallctl_row *row = &ps_mallctl_rows[i];
        size_t count;
        if (!begins(row, name, limit, &count, places)) {
            continue;
        }
        const char *own = row->name;
        const char *rest = name;
        for (size_t at = 0; at < count; at++, own = next(own), rest = next(rest)) {
            mib[at] = *own == '#' ? places[at] : first_alike(i, at + 1);
        }
        if (*own == '\0' && *rest != '\0' && limit == PS_MALLCTL_DEPTH) {
            break; /* longer than any name */
        }
        *length = count;
        return *own == '\0' ? row : NULL;
    }
    return NULL;
}

const struct ps_mallctl_row *ps_mallctl_at(const size_t *mib, size_t length, size_t *indexes) {
    if (length == 0 || mib[length - 1] >= ps_mallctl_row_count) {
        return NULL;
    }
    size_t number = mib[length - 1];
    const struct ps_mallctl_row *row = &ps_mallctl_rows[number];
    if (count_components(row) != length) {
        return NULL;
    }
    const char *own = row->name;
    size_t index_count = 0;
    for (size_t at = 0; at < length; at++, own = next(own)) {
        if (*own == '#') {
            indexes[index_count++] = mib[at];
        } else if (mib[at] != first_alike(number, at + 1)) {
            return NULL;
        }
    }
    return is_valid(row, indexes) ? row : NULL;
}
