/* SPDX-License-Identifier: MIT */
/*
 * See profile.h. The file is a sequence of fields in the wire format of protocol buffers. A message
 * inside of it is preceded by its length, so each is put together in a buffer first.
 */
#include "shim/profile.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/os/clock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/profile/pinned.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "shim/pprof.h"
#include "shim/process.h"
#include "shim/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* The first strings of the table, in this order. */
enum string {
    STRING_EMPTY,
    STRING_ALLOC_OBJECTS,
    STRING_ALLOC_SPACE,
    STRING_INUSE_OBJECTS,
    STRING_INUSE_SPACE,
    STRING_PINNED_SPACE,
    STRING_COUNT,
    STRING_BYTES,
    STRING_SPACE,
    STRING_LOST,
    STRING_NO_STACK,
    STRING_POOL_FAMILY,
    STRING_POOL_NAME,
    STRING_LOST_STACKS,
    STRING_LOST_BLOCKS,
    STRING_PROCESS,
    STRING_FILES, /* then a name and a build id for each mapping */
};

struct location {
    uintptr_t address; /* or the site of a line record; 0: the entry is free */
    uint64_t id;
    uint64_t pool; /* string of a pool's family; the next is its name, if it has one */
};

struct writer {
    struct ps_gzip gzip;
    struct ps_pprof_message message;
    struct ps_pprof_message inner; /* of a message in the message */
    const struct ps_profile_stack *newest;
    struct ps_mappings *mappings;
    uint64_t string_count;      /* written so far */
    struct location *locations; /* hash table */
    size_t location_mask;
    struct ps_pinned pinned;
};

/* ---- the wire format ---- */

static void put_bytes(struct writer *writer, unsigned field, const void *data, size_t length) {
    struct ps_pprof_message head = {.length = 0};
    ps_pprof_add_head(&head, field, length);
    ps_gzip_add(&writer->gzip, head.bytes, head.length);
    ps_gzip_add(&writer->gzip, data, length);
    writer->string_count += field == PS_PPROF_STRING;
}

static void put_number(struct writer *writer, unsigned field, uint64_t value) {
    struct ps_pprof_message number = {.length = 0};
    ps_pprof_add_number(&number, field, value);
    ps_gzip_add(&writer->gzip, number.bytes, number.length);
}

static void put_string(struct writer *writer, const char *text) {
    put_bytes(writer, PS_PPROF_STRING, text, strlen(text));
}

static void put_message(struct writer *writer, unsigned field) {
    put_bytes(writer, field, writer->message.bytes, writer->message.length);
}

/* ---- locations ---- */

/* The entry of an address, or the free one where it belongs. */
static struct location *place_of(const struct writer *writer, uintptr_t address) {
    size_t index = (address * PS_GOLDEN_64 >> 20) & writer->location_mask;
    /* Ends: half of the entries are free. */
    while (writer->locations[index].address != 0 && writer->locations[index].address != address) {
        index = (index + 1) & writer->location_mask;
    }
    return &writer->locations[index];
}

/* Writes the texts of a pool's labels. */
static void put_pool(struct writer *writer, struct location *location) {
    struct ps_profile_pool pool;
    if (ps_profile_pool_of(location->address, &pool)) {
        location->pool = writer->string_count;
        put_bytes(writer, PS_PPROF_STRING, pool.family, pool.family_bytes);
        if (pool.name_bytes != 0) {
            put_bytes(writer, PS_PPROF_STRING, pool.name, pool.name_bytes);
        }
    }
}

/* Writes the strings of a line, its function, and its location. */
static void put_line(struct writer *writer, const struct location *location) {
    struct ps_profile_line line;
    uint64_t id = location->id;
    ps_profile_line_of(location->address, &line);
    uint64_t name = writer->string_count;
    put_bytes(writer, PS_PPROF_STRING, line.function, line.function_bytes);
    put_bytes(writer, PS_PPROF_STRING, line.file, line.file_bytes);
    ps_pprof_set_function(&writer->message, id, name, name + 1);
    put_message(writer, PS_PPROF_FUNCTION);
    ps_pprof_set_line(&writer->message, id, line.number);
    put_message(writer, PS_PPROF_LOCATION);
}

static void put_address(struct writer *writer, const struct location *location) {
    size_t mapping = ps_mappings_find(writer->mappings, location->address);
    ps_pprof_set_address(&writer->message, location->id, mapping, location->address);
    put_message(writer, PS_PPROF_LOCATION);
}

static void put_locations(struct writer *writer) {
    uint64_t next_id = PS_PPROF_FIRST;
    for (const struct ps_profile_stack *stack = writer->newest; stack != NULL;
         stack = ps_profile_next(stack)) {
        for (size_t i = 0; i < stack->count; i++) {
            struct location *location = place_of(writer, stack->sites[i]);
            if (location->address != 0 || stack->sites[i] == 0) {
                continue;
            }
            *location = (struct location){.address = stack->sites[i], .id = next_id++};
            if (ps_profile_is_line(location->address)) {
                put_line(writer, location);
                put_pool(writer, location);
            } else {
                put_address(writer, location);
            }
        }
    }
}

static void put_named_location(struct writer *writer, uint64_t id, enum string name) {
    ps_pprof_set_function(&writer->message, id, name, 0);
    put_message(writer, PS_PPROF_FUNCTION);
    ps_pprof_set_line(&writer->message, id, 0);
    put_message(writer, PS_PPROF_LOCATION);
}

/* ---- samples ---- */

/* Adds the labels of the pool that took the memory. */
static void add_labels(const struct writer *writer, struct ps_pprof_message *message,
                       uintptr_t innermost) {
    struct ps_profile_pool pool;
    if (ps_profile_pool_of(innermost, &pool)) {
        uint64_t text = place_of(writer, innermost)->pool;
        ps_pprof_add_label(message, STRING_POOL_FAMILY, text);
        if (pool.name_bytes != 0) {
            ps_pprof_add_label(message, STRING_POOL_NAME, text + 1);
        }
    }
}

static void put_sample(struct writer *writer, const struct ps_profile_stack *stack) {
    struct ps_profile_sums sums;
    ps_profile_read_sums(stack, &sums);
    if (sums.made_weight == 0) {
        return;
    }
    struct ps_pprof_message *message = &writer->message;
    struct ps_pprof_message *inner = &writer->inner;
    message->length = 0;
    inner->length = 0;
    for (size_t i = 0; i < stack->count; i++) {
        if (stack->sites[i] != 0) {
            ps_pprof_add_varint(inner, place_of(writer, stack->sites[i])->id);
        }
    }
    if (stack->count == 0) {
        ps_pprof_add_varint(inner, stack->next == NULL ? PS_PPROF_LOST : PS_PPROF_NO_STACK);
    }
    ps_pprof_add_inner(message, PS_PPROF_SAMPLE_LOCATIONS, inner);
    inner->length = 0;
    ps_pprof_add_varint(inner, ps_draw_blocks(sums.made_weight));
    ps_pprof_add_varint(inner, sums.made_bytes);
    ps_pprof_add_varint(inner, ps_draw_blocks(sums.live_weight));
    ps_pprof_add_varint(inner, sums.live_bytes);
    ps_pprof_add_varint(inner, ps_pinned_of(&writer->pinned, stack));
    ps_pprof_add_inner(message, PS_PPROF_SAMPLE_VALUES, inner);
    if (stack->count != 0) {
        add_labels(writer, message, stack->sites[0]);
    }
    put_message(writer, PS_PPROF_SAMPLE);
}

/* ---- the rest of the file ---- */

static void put_type(struct writer *writer, unsigned field, enum string type, enum string unit) {
    ps_pprof_set_type(&writer->message, type, unit);
    put_message(writer, field);
}

static void put_head(struct writer *writer) {
    struct timespec now;
    ps_clock_read(CLOCK_REALTIME, &now);
    put_type(writer, PS_PPROF_SAMPLE_TYPE, STRING_ALLOC_OBJECTS, STRING_COUNT);
    put_type(writer, PS_PPROF_SAMPLE_TYPE, STRING_ALLOC_SPACE, STRING_BYTES);
    put_type(writer, PS_PPROF_SAMPLE_TYPE, STRING_INUSE_OBJECTS, STRING_COUNT);
    put_type(writer, PS_PPROF_SAMPLE_TYPE, STRING_INUSE_SPACE, STRING_BYTES);
    put_type(writer, PS_PPROF_SAMPLE_TYPE, STRING_PINNED_SPACE, STRING_BYTES);
    put_type(writer, PS_PPROF_PERIOD_TYPE, STRING_SPACE, STRING_BYTES);
    /* relaxed: a number by itself. */
    put_number(writer, PS_PPROF_PERIOD, ps_load_relaxed(&ps_profile_settings.x_interval_bytes));
    put_number(writer, PS_PPROF_DEFAULT_TYPE, STRING_INUSE_SPACE);
    put_number(writer, PS_PPROF_TIME_NANOS,
               (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* A number and the words around it. */
static void put_count_string(struct writer *writer, const char *before, uint64_t count,
                             const char *what) {
    char buffer[128];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, before);
    ps_text_add_number(&text, count);
    ps_text_add(&text, what);
    put_bytes(writer, PS_PPROF_STRING, buffer, text.length);
}

static void put_strings(struct writer *writer, const struct ps_profile_counts *counts) {
    static const char *const texts[] = {
        [STRING_EMPTY] = "",
        [STRING_ALLOC_OBJECTS] = "alloc_objects",
        [STRING_ALLOC_SPACE] = "alloc_space",
        [STRING_INUSE_OBJECTS] = "inuse_objects",
        [STRING_INUSE_SPACE] = "inuse_space",
        [STRING_PINNED_SPACE] = "pinned_space",
        [STRING_COUNT] = "count",
        [STRING_BYTES] = "bytes",
        [STRING_SPACE] = "space",
        [STRING_LOST] = "[stacks beyond POOLSHIM_PROFILE_MAX]",
        [STRING_NO_STACK] = "[no stack]",
        [STRING_POOL_FAMILY] = PS_PPROF_LABEL_FAMILY,
        [STRING_POOL_NAME] = PS_PPROF_LABEL_NAME,
    };
    for (size_t i = 0; i < STRING_LOST_STACKS; i++) {
        put_string(writer, texts[i]);
    }
    put_count_string(writer, "", counts->lost_stack_count,
                     " samples whose stacks did not fit POOLSHIM_PROFILE_MAX");
    put_count_string(writer, "", counts->lost_block_count,
                     " samples that did not fit POOLSHIM_PROFILE_MAX: not in inuse figures");
    put_count_string(writer, "process ", (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0), "");
    for (size_t i = 0; i < writer->mappings->count; i++) {
        char build_id[PS_PPROF_BUILD_ID_BYTES];
        put_string(writer, writer->mappings->mappings[i].name);
        ps_pprof_build_id(build_id, &writer->mappings->mappings[i]);
        put_string(writer, build_id);
    }
    put_number(writer, PS_PPROF_COMMENT, STRING_PROCESS);
    if (counts->lost_stack_count != 0) {
        put_number(writer, PS_PPROF_COMMENT, STRING_LOST_STACKS);
    }
    if (counts->lost_block_count != 0) {
        put_number(writer, PS_PPROF_COMMENT, STRING_LOST_BLOCKS);
    }
}

static void put_mappings(struct writer *writer) {
    for (size_t i = 0; i < writer->mappings->count; i++) {
        ps_pprof_set_mapping(&writer->message, i + 1, &writer->mappings->mappings[i],
                             STRING_FILES + 2 * i, STRING_FILES + 2 * i + 1);
        put_message(writer, PS_PPROF_MAPPING);
    }
}

static void put_file(struct writer *writer) {
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    put_head(writer);
    put_strings(writer, &counts);
    put_mappings(writer);
    put_named_location(writer, PS_PPROF_LOST, STRING_LOST);
    put_named_location(writer, PS_PPROF_NO_STACK, STRING_NO_STACK);
    put_locations(writer);
    for (const struct ps_profile_stack *stack = writer->newest; stack != NULL;
         stack = ps_profile_next(stack)) {
        put_sample(writer, stack);
    }
}

/* Entries of the table of locations: at least twice the sites of all stacks. */
static size_t location_count(const struct ps_profile_stack *newest) {
    size_t sites = 1;
    for (const struct ps_profile_stack *stack = newest; stack != NULL;
         stack = ps_profile_next(stack)) {
        sites += stack->count;
    }
    size_t count = 1024;
    while (count < 2 * sites) {
        count *= 2;
    }
    return count;
}

int ps_pprof_write(int fd, const void *context) {
    (void)context;
    /* Stacks that are added from here on are not written. */
    const struct ps_profile_stack *newest = ps_profile_next(NULL);
    size_t page_bytes = ps_os_page_bytes();
    size_t entries = location_count(newest);
    size_t head_bytes = ps_round_up(sizeof(struct writer), PS_CACHE_LINE) +
                        ps_round_up(sizeof(struct ps_mappings), PS_CACHE_LINE);
    size_t pinned_entries = ps_pinned_entries(ps_table_sample_limit());
    size_t pinned_at = head_bytes + entries * sizeof(struct location);
    size_t bytes =
        ps_round_up(pinned_at + pinned_entries * sizeof(struct ps_pinned_entry), page_bytes);
    char *memory = ps_os_reserve(bytes, page_bytes);
    if (memory == NULL) {
        return ENOMEM;
    }
    struct writer *writer = (struct writer *)memory;
    writer->newest = newest;
    writer->mappings = (struct ps_mappings *)(memory + ps_round_up(sizeof *writer, PS_CACHE_LINE));
    writer->locations = (struct location *)(memory + head_bytes);
    writer->location_mask = entries - 1;
    writer->pinned.entries = (struct ps_pinned_entry *)(memory + pinned_at);
    writer->pinned.mask = pinned_entries - 1;
    ps_pinned_count(&writer->pinned);
    ps_mappings_read(writer->mappings);
    ps_gzip_start(&writer->gzip, fd);
    put_file(writer);
    int error = ps_gzip_finish(&writer->gzip);
    (void)ps_os_release(memory, bytes);
    return error;
}
