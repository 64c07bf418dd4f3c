/* SPDX-License-Identifier: MIT */
/*
 * See flight_sites.h. No locks of its own; the sums of a stack are read under the lock of the
 * engine's table, one stack at a time.
 */
#include "shim/flight_sites.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/os/os.h"

#include <string.h>

#define REREAD_MS 1000 /* code without a file leads to no mapping, whenever they are read */
#define WORDS 4        /* of a stack: ps_flight_copy_sums */
#define NAME_BYTES 128

static bool put(struct ps_flight_file *file, unsigned field,
                const struct ps_pprof_message *message) {
    return ps_flight_append(file, field, message->bytes, message->length) != 0;
}

/* ---- mappings ---- */

/* The mappings of this moment, in memory of their own; NULL: there is none. */
static struct ps_mappings *read_mappings(void) {
    struct ps_mappings *mappings = ps_os_reserve(sizeof *mappings, ps_os_page_bytes());
    if (mappings != NULL) {
        ps_mappings_read(mappings);
    }
    return mappings;
}

static void release_mappings(struct ps_mappings *mappings) {
    (void)ps_os_release(mappings, sizeof *mappings);
}

/* Number of the mapping in the file, from 1; 0: it has none. The newest that covers the address:
 * another file may have been mapped there before. */
static size_t find_range(const struct ps_flight_tables *tables, uintptr_t address) {
    for (size_t i = tables->range_count; i > 0; i--) {
        const struct ps_flight_range *range = &tables->ranges[i - 1];
        if (address - range->start < range->limit - range->start) {
            return i;
        }
    }
    return 0;
}

static void enter_mapping(struct ps_flight_file *file, struct ps_flight_tables *tables,
                          const struct ps_mapping *mapping) {
    char build_id[PS_PPROF_BUILD_ID_BYTES];
    struct ps_pprof_message message;
    size_t known = find_range(tables, mapping->start);
    if (tables->range_count == PS_MAPPINGS_LIMIT ||
        (known != 0 && tables->ranges[known - 1].start == mapping->start &&
         tables->ranges[known - 1].limit == mapping->limit)) {
        return;
    }
    ps_pprof_build_id(build_id, mapping);
    uint32_t name = ps_flight_string(file, mapping->name);
    uint32_t id = ps_flight_string(file, build_id);
    ps_pprof_set_mapping(&message, tables->range_count + 1, mapping, name, id);
    if (name != 0 && put(file, PS_PPROF_MAPPING, &message)) {
        tables->ranges[tables->range_count++] =
            (struct ps_flight_range){mapping->start, mapping->limit};
    }
}

static void enter_mappings(struct ps_flight_file *file, struct ps_flight_tables *tables) {
    uint64_t now_ms = ps_os_now_ms();
    struct ps_mappings *mappings = now_ms >= tables->next_reading_ms ? read_mappings() : NULL;
    if (mappings == NULL) {
        return;
    }
    tables->next_reading_ms = now_ms + REREAD_MS;
    for (size_t i = 0; i < mappings->count; i++) {
        enter_mapping(file, tables, &mappings->mappings[i]);
    }
    release_mappings(mappings);
}

/* ---- stacks ---- */

void ps_flight_enter_named(struct ps_flight_file *file) {
    static const uint32_t names[] = {
        [PS_PPROF_LOST] = PS_FLIGHT_STRING_LOST, [PS_PPROF_NO_STACK] = PS_FLIGHT_STRING_NO_STACK};
    for (uint32_t id = PS_PPROF_LOST; id <= PS_PPROF_NO_STACK; id++) {
        struct ps_pprof_message message;
        ps_pprof_set_function(&message, id, names[id], 0);
        (void)put(file, PS_PPROF_FUNCTION, &message);
        ps_pprof_set_line(&message, id, 0);
        (void)put(file, PS_PPROF_LOCATION, &message);
    }
}

/* Enters a text without a terminator. Returns its number; 0: there is no room. */
static uint32_t enter_text(struct ps_flight_file *file, const char *text, size_t bytes) {
    char copy[PS_PROFILE_TEXT_BYTES + 1];
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return ps_flight_string(file, copy);
}

/* Enters a line record: its function, and a location without an address. */
static bool put_line(struct ps_flight_file *file, uint32_t id, uintptr_t site) {
    struct ps_profile_line line;
    struct ps_pprof_message message;
    ps_profile_line_of(site, &line);
    uint32_t name = enter_text(file, line.function, line.function_bytes);
    uint32_t path = enter_text(file, line.file, line.file_bytes);
    ps_pprof_set_function(&message, id, name, path);
    if (name == 0 || path == 0 || !put(file, PS_PPROF_FUNCTION, &message)) {
        return false;
    }
    ps_pprof_set_line(&message, id, line.number);
    return put(file, PS_PPROF_LOCATION, &message);
}

/* Enters the texts of a pool's labels. Returns the number of the first; 0: there is no room, or it
 * is no pool. */
static uint32_t enter_pool(struct ps_flight_file *file, uintptr_t site) {
    struct ps_profile_pool pool;
    if (!ps_profile_pool_of(site, &pool)) {
        return 0;
    }
    uint32_t family = enter_text(file, pool.family, pool.family_bytes);
    bool has_room = pool.name_bytes == 0 || enter_text(file, pool.name, pool.name_bytes) != 0;
    return has_room ? family : 0;
}

static bool put_address(struct ps_flight_file *file, struct ps_flight_tables *tables, uint32_t id,
                        uintptr_t address) {
    struct ps_pprof_message message;
    size_t mapping = find_range(tables, address);
    if (mapping == 0) {
        enter_mappings(file, tables);
        mapping = find_range(tables, address);
    }
    ps_pprof_set_address(&message, id, mapping, address);
    return put(file, PS_PPROF_LOCATION, &message);
}

/* The number of a location, entered if it is new; 0: there is no room. */
static uint64_t location_of(struct ps_flight_file *file, struct ps_flight_tables *tables,
                            uintptr_t address) {
    uint32_t *bucket = &tables->buckets[(address * PS_GOLDEN_64 >> 32) % PS_FLIGHT_BUCKETS];
    for (uint32_t i = *bucket; i != 0; i = tables->sites[i].next) { /* ends with the chain */
        if (tables->sites[i].address == address) {
            return i;
        }
    }
    uint32_t id = (uint32_t)(PS_PPROF_FIRST + tables->site_count);
    if (id >= PS_FLIGHT_SITES ||
        !(ps_profile_is_line(address) ? put_line(file, id, address)
                                      : put_address(file, tables, id, address))) {
        return 0;
    }
    tables->sites[id] = (struct ps_flight_site){
        .address = address, .next = *bucket, .pool = enter_pool(file, address)};
    *bucket = id;
    tables->site_count++;
    return id;
}

/* Adds the labels of the pool that took the memory. */
static void add_labels(const struct ps_flight_tables *tables, struct ps_pprof_message *message,
                       const struct ps_profile_stack *stack, uint64_t innermost) {
    struct ps_profile_pool pool;
    uint32_t text = tables->sites[innermost].pool;
    if (text != 0 && ps_profile_pool_of(stack->sites[0], &pool)) {
        ps_pprof_add_label(message, PS_FLIGHT_STRING_POOL_FAMILY, text);
        if (pool.name_bytes != 0) {
            ps_pprof_add_label(message, PS_FLIGHT_STRING_POOL_NAME, text + 1);
        }
    }
}

static void enter_stack(struct ps_flight_file *file, struct ps_flight_tables *tables,
                        const struct ps_profile_stack *stack) {
    struct ps_pprof_message message = {.length = 0};
    struct ps_pprof_message sites = {.length = 0};
    uint64_t innermost = 0; /* 0: of no pool */
    for (size_t i = 0; i < stack->count; i++) {
        uint64_t id = stack->sites[i] != 0 ? location_of(file, tables, stack->sites[i]) : 0;
        innermost = i == 0 ? id : innermost;
        if (id != 0) {
            ps_pprof_add_varint(&sites, id);
        }
    }
    if (sites.length == 0) {
        ps_pprof_add_varint(&sites, stack->next == NULL ? PS_PPROF_LOST : PS_PPROF_NO_STACK);
    }
    size_t words = ps_flight_add_words(&message, PS_PPROF_SAMPLE_VALUES, WORDS);
    ps_pprof_add_inner(&message, PS_PPROF_SAMPLE_LOCATIONS, &sites);
    add_labels(tables, &message, stack, innermost);
    size_t at = ps_flight_append(file, PS_PPROF_SAMPLE, message.bytes, message.length);
    if (at != 0) {
        ps_profile_set_place(stack, (uint32_t)(at + words));
    }
}

void ps_flight_copy_sums(const struct ps_flight_file *file, const struct ps_profile_stack *stack) {
    const struct ps_profile_sums *sums = &stack->x_sums;
    const uint64_t words[WORDS] = {ps_draw_blocks(sums->made_weight), sums->made_bytes,
                                   ps_draw_blocks(sums->live_weight), sums->live_bytes};
    for (size_t i = 0; i < WORDS; i++) {
        ps_flight_set_word(file, stack->x_place + i * PS_FLIGHT_WORD_BYTES, words[i]);
    }
}

bool ps_flight_has_new(const struct ps_flight_tables *tables) {
    return ps_profile_next(NULL) != tables->entered;
}

void ps_flight_enter_stacks(struct ps_flight_file *file, struct ps_flight_tables *tables) {
    const struct ps_profile_stack *newest = ps_profile_next(NULL);
    for (const struct ps_profile_stack *stack = newest; stack != NULL && stack != tables->entered;
         stack = ps_profile_next(stack)) {
        enter_stack(file, tables, stack);
    }
    tables->entered = newest;
}

void ps_flight_forget_stacks(void) {
    for (const struct ps_profile_stack *stack = ps_profile_next(NULL); stack != NULL;
         stack = ps_profile_next(stack)) {
        ps_profile_set_place(stack, 0);
    }
}

/* ---- the heaviest ---- */

/* True if a line is of node's own modules. */
static bool is_of_node(uintptr_t site) {
    static const char scheme[] = "node:";
    struct ps_profile_line line;
    ps_profile_line_of(site, &line);
    return line.file_bytes >= sizeof scheme - 1 &&
           memcmp(line.file, scheme, sizeof scheme - 1) == 0;
}

/* The place of the site that names a stack: a pool's name, else the innermost line, of the
 * program's own if there is one, else the innermost site that is no pool. */
static size_t named_site(const struct ps_profile_stack *stack) {
    struct ps_profile_pool pool;
    size_t first = stack->count != 0 && ps_profile_pool_of(stack->sites[0], &pool);
    if (first != 0 && pool.name_bytes != 0) {
        return 0;
    }
    size_t innermost = stack->count;
    for (size_t i = first; i < stack->count; i++) {
        if (ps_profile_is_line(stack->sites[i])) {
            innermost = ps_min(innermost, i);
            if (!is_of_node(stack->sites[i])) {
                return i;
            }
        }
    }
    return innermost < stack->count ? innermost : first;
}

static struct ps_flight_group *group_of(struct ps_flight_tables *tables,
                                        const struct ps_profile_stack *stack) {
    struct ps_profile_pool pool;
    size_t at = named_site(stack);
    uintptr_t inner = at < stack->count ? stack->sites[at] : 0;
    uintptr_t outer = at + 1 < stack->count ? stack->sites[at + 1] : 0;
    if (ps_profile_pool_of(inner, &pool)) {
        outer = 0; /* a function of the pools library */
    }
    uint64_t hash = (inner ^ outer * PS_GOLDEN_64) * PS_GOLDEN_64;
    for (size_t i = 0; i < PS_FLIGHT_GROUPS; i++) {
        struct ps_flight_group *group = &tables->groups[((hash >> 32) + i) % PS_FLIGHT_GROUPS];
        bool is_free = group->sites[0] == 0 && group->sites[1] == 0;
        if (is_free || (group->sites[0] == inner && group->sites[1] == outer)) {
            group->sites[0] = inner;
            group->sites[1] = outer;
            return group;
        }
    }
    return &tables->groups[0];
}

static void add_groups(struct ps_flight_tables *tables) {
    memset(tables->groups, 0, sizeof tables->groups);
    for (const struct ps_profile_stack *stack = ps_profile_next(NULL); stack != NULL;
         stack = ps_profile_next(stack)) {
        struct ps_profile_sums sums;
        ps_profile_read_sums(stack, &sums);
        if (sums.live_bytes != 0) {
            group_of(tables, stack)->live_bytes += sums.live_bytes;
        }
    }
}

/* The last part of a path. */
static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void add_hex(struct ps_text *text, uint64_t value) {
    char digits[16];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    ps_text_add(text, "0x");
    ps_text_add_str(text, (struct ps_str){.data = digits + at, .length = sizeof digits - at});
}

/* "leak.py:12 leak_here"; of a pool "region "sessions"". */
static void add_line(struct ps_text *text, uintptr_t site) {
    struct ps_profile_line line;
    struct ps_profile_pool pool;
    char name[PS_PROFILE_TEXT_BYTES + 1];
    ps_profile_line_of(site, &line);
    if (!ps_profile_pool_of(site, &pool)) {
        memcpy(name, line.file, line.file_bytes);
        name[line.file_bytes] = '\0';
        ps_text_add_path(text, base_of(name));
        ps_text_add(text, ":");
        ps_text_add_number(text, line.number);
        ps_text_add(text, " ");
    }
    memcpy(name, line.function, line.function_bytes);
    name[line.function_bytes] = '\0';
    ps_text_add_path(text, name);
}

static void add_site(struct ps_text *text, const struct ps_mappings *mappings, uintptr_t address) {
    if (ps_profile_is_line(address)) {
        add_line(text, address);
        return;
    }
    char name[NAME_BYTES];
    size_t number = mappings != NULL ? ps_mappings_find(mappings, address) : 0;
    if (number == 0) {
        add_hex(text, address);
        return;
    }
    const struct ps_mapping *mapping = &mappings->mappings[number - 1];
    uint64_t offset = address - mapping->start + mapping->file_offset;
    ps_flight_name(name, sizeof name, mapping->name, offset);
    ps_text_add_path(text, name[0] != '\0' ? name : base_of(mapping->name));
    if (name[0] == '\0') {
        ps_text_add(text, "+");
        add_hex(text, offset);
    }
}

static void add_group(struct ps_text *text, const struct ps_mappings *mappings,
                      const struct ps_flight_group *group) {
    if (group->sites[0] == 0) {
        ps_text_add(text, "[no stack]");
    } else {
        add_site(text, mappings, group->sites[0]);
    }
    if (group->sites[1] != 0) {
        ps_text_add(text, " < ");
        add_site(text, mappings, group->sites[1]);
    }
    ps_text_add(text, " ");
    ps_text_add_rounded_size(text, group->live_bytes, 0);
}

void ps_flight_add_heaviest(struct ps_text *text, struct ps_flight_tables *tables) {
    struct ps_mappings *mappings = read_mappings();
    add_groups(tables);
    for (size_t shown = 0; shown < PS_FLIGHT_SHOWN; shown++) {
        struct ps_flight_group *heaviest = &tables->groups[0];
        for (size_t i = 1; i < PS_FLIGHT_GROUPS; i++) {
            if (tables->groups[i].live_bytes > heaviest->live_bytes) {
                heaviest = &tables->groups[i];
            }
        }
        if (heaviest->live_bytes == 0) {
            break;
        }
        ps_text_add(text, shown != 0 ? ", " : "");
        add_group(text, mappings, heaviest);
        heaviest->live_bytes = 0;
    }
    if (mappings != NULL) {
        release_mappings(mappings);
    }
}
