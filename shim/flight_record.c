/* SPDX-License-Identifier: MIT */
/*
 * See flight_record.h. No locks.
 */
#include "shim/flight_record.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/clock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "shim/flight_sites.h"
#include "shim/flight_store.h"

#include <string.h>

#define POINTS 512        /* in the file: the last eight minutes */
#define GROWTH_POINTS 300 /* of the comment on growth: five minutes */
#define RATE_MS 10000     /* for which growth is given as a rate, too */
#define CENSUS_MS 10000   /* between two counts of the parts of the memory, which cost about a */
#define CENSUS_SHARE 100  /* million instructions; more: a hundredth of the time */
#define TEXT_BYTES 160    /* of a comment that changes */
#define MS_PER_MINUTE 60000
#define MS_PER_SECOND 1000
#define NS_PER_MS 1000000

#define GROWTH_FIELD 101 /* of struct growth; not of profile.proto: readers skip it */

struct point {
    uint64_t time_ms; /* since 1970 */
    uint64_t resident_bytes;
    uint64_t live_bytes; /* by the samples */
};

/* A ring of points. No command reads it yet: the comment on growth is made of it. */
struct growth {
    uint32_t version; /* 1 */
    uint32_t capacity;
    uint64_t x_count; /* so far */
    struct point points[POINTS];
};

static uint64_t wall_ms(void) {
    struct timespec now;
    ps_clock_read(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * MS_PER_SECOND + (uint64_t)now.tv_nsec / NS_PER_MS;
}

/* ---- the beginning ---- */

static void put_type(struct ps_flight_record *record, unsigned field, enum ps_flight_string type,
                     enum ps_flight_string unit) {
    struct ps_pprof_message message = {.length = 0};
    ps_pprof_set_type(&message, type, unit);
    (void)ps_flight_append(&record->file, field, message.bytes, message.length);
}

static void put_strings(struct ps_flight_record *record) {
    static const char *const texts[PS_FLIGHT_STRINGS] = {
        [PS_FLIGHT_STRING_EMPTY] = "",
        [PS_FLIGHT_STRING_ALLOC_OBJECTS] = "alloc_objects",
        [PS_FLIGHT_STRING_ALLOC_SPACE] = "alloc_space",
        [PS_FLIGHT_STRING_INUSE_OBJECTS] = "inuse_objects",
        [PS_FLIGHT_STRING_INUSE_SPACE] = "inuse_space",
        [PS_FLIGHT_STRING_COUNT] = "count",
        [PS_FLIGHT_STRING_BYTES] = "bytes",
        [PS_FLIGHT_STRING_SPACE] = "space",
        [PS_FLIGHT_STRING_LOST] = "[stacks beyond the flight record]",
        [PS_FLIGHT_STRING_NO_STACK] = "[no stack]",
        [PS_FLIGHT_STRING_POOL_FAMILY] = PS_PPROF_LABEL_FAMILY,
        [PS_FLIGHT_STRING_POOL_NAME] = PS_PPROF_LABEL_NAME,
    };
    for (size_t i = 0; i < PS_FLIGHT_STRINGS; i++) {
        (void)ps_flight_string(&record->file, texts[i]);
    }
}

static void put_comment(struct ps_flight_record *record, enum ps_flight_comment comment,
                        const char *text) {
    struct ps_pprof_message number = {.length = 0};
    size_t before = record->file.end;
    ps_pprof_add_varint(&number, ps_flight_string(&record->file, text));
    record->comments[comment] = before + PS_FLIGHT_WORD_BYTES;
    (void)ps_flight_append(&record->file, PS_PPROF_COMMENT, number.bytes, number.length);
}

static void put_comments(struct ps_flight_record *record) {
    char text[TEXT_BYTES + 1];
    struct ps_text out;
    ps_text_start(&out, text, TEXT_BYTES, PS_TEXT_TO_BUFFER);
    ps_text_add(&out, "process ");
    ps_text_add_number(&out, (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0));
    text[out.length] = '\0';
    put_comment(record, PS_FLIGHT_COMMENT_PROCESS, text);
    memset(text, ' ', TEXT_BYTES);
    text[TEXT_BYTES] = '\0';
    for (int i = PS_FLIGHT_COMMENT_STATE; i < PS_FLIGHT_COMMENTS; i++) {
        put_comment(record, (enum ps_flight_comment)i, text);
    }
}

static void put_growth(struct ps_flight_record *record) {
    static const uint32_t head[] = {1, POINTS};
    struct ps_flight_file *file = &record->file;
    record->growth = ps_flight_append(file, GROWTH_FIELD, NULL, sizeof(struct growth));
    memcpy(file->memory + record->growth, head, sizeof head);
}

static void put_numbers(struct ps_flight_record *record) {
    struct ps_pprof_message numbers = {.length = 0};
    ps_pprof_add_number(&numbers, PS_PPROF_TIME_NANOS, record->begin_ms * NS_PER_MS);
    ps_pprof_add_number(&numbers, PS_PPROF_PERIOD, ps_profile_settings.interval_bytes);
    ps_pprof_add_number(&numbers, PS_PPROF_DEFAULT_TYPE, PS_FLIGHT_STRING_INUSE_SPACE);
    record->duration = ps_flight_append_numbers(&record->file, &numbers, PS_PPROF_DURATION_NANOS);
}

void ps_flight_record_begin(struct ps_flight_record *record, unsigned char *memory, size_t bytes) {
    ps_flight_file_start(&record->file, memory, bytes);
    record->begin_ms = wall_ms();
    record->next_census_ms = ps_os_now_ms() + CENSUS_MS / 2;
    put_strings(record);
    put_type(record, PS_PPROF_SAMPLE_TYPE, PS_FLIGHT_STRING_ALLOC_OBJECTS, PS_FLIGHT_STRING_COUNT);
    put_type(record, PS_PPROF_SAMPLE_TYPE, PS_FLIGHT_STRING_ALLOC_SPACE, PS_FLIGHT_STRING_BYTES);
    put_type(record, PS_PPROF_SAMPLE_TYPE, PS_FLIGHT_STRING_INUSE_OBJECTS, PS_FLIGHT_STRING_COUNT);
    put_type(record, PS_PPROF_SAMPLE_TYPE, PS_FLIGHT_STRING_INUSE_SPACE, PS_FLIGHT_STRING_BYTES);
    put_type(record, PS_PPROF_PERIOD_TYPE, PS_FLIGHT_STRING_SPACE, PS_FLIGHT_STRING_BYTES);
    put_numbers(record);
    put_comments(record);
    put_growth(record);
    ps_flight_enter_named(&record->file);
}

/* ---- comments ---- */

/* Replaces a comment's text. */
static void set_comment(struct ps_flight_record *record, enum ps_flight_comment comment,
                        const struct ps_text *text) {
    unsigned char *at = record->file.memory + record->comments[comment];
    memcpy(at, text->data, text->length);
    memset(at + text->length, ' ', TEXT_BYTES - text->length);
}

static void add_time(struct ps_text *text) {
    char time[PS_FLIGHT_TIME_BYTES];
    ps_flight_time(time, wall_ms() / MS_PER_SECOND);
    ps_text_add(text, " at ");
    ps_text_add(text, time);
    ps_text_add(text, "Z");
}

static void add_part(struct ps_text *text, const char *name, uint64_t bytes) {
    ps_text_add(text, text->length != 0 ? ", " : "");
    ps_text_add(text, name);
    ps_text_add(text, " ");
    ps_text_add_rounded_size(text, bytes, 0);
}

/* The parts of the memory, by the engine's counters. */
static void add_parts(struct ps_flight_record *record, struct ps_text *text,
                      uint64_t resident_bytes) {
    struct ps_census *census = &record->census;
    ps_census_peek(census);
    uint64_t live = census->small_live_bytes + census->run_live_bytes + census->map_live_bytes;
    uint64_t slabs =
        census->small_slab_bytes - ps_min(census->small_slab_bytes, census->small_live_bytes);
    uint64_t pages =
        census->cache_dirty_bytes + census->run_cached_bytes + census->map_cached_bytes;
    uint64_t heap = live + slabs + pages;
    add_part(text, "live", live);
    add_part(text, "free in slabs", slabs);
    add_part(text, "free pages", pages);
    add_part(text, "other resident memory", resident_bytes - ps_min(resident_bytes, heap));
}

/* is_due: in any case. */
static void set_parts(struct ps_flight_record *record, uint64_t now_ms, uint64_t resident_bytes,
                      bool is_due) {
    char buffer[TEXT_BYTES];
    struct ps_text text;
    if (now_ms < record->next_census_ms && !is_due) {
        return;
    }
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    add_parts(record, &text, resident_bytes);
    set_comment(record, PS_FLIGHT_COMMENT_PARTS, &text);
    uint64_t taken_ms = ps_os_now_ms() - now_ms;
    record->next_census_ms = now_ms + ps_max(CENSUS_SHARE * taken_ms, CENSUS_MS);
}

static void set_growth(struct ps_flight_record *record, const struct growth *growth,
                       uint64_t count) {
    char buffer[TEXT_BYTES];
    struct ps_text text;
    const struct point *last = &growth->points[(count - 1) % POINTS];
    const struct point *first =
        &growth->points[count > GROWTH_POINTS ? (count - GROWTH_POINTS) % POINTS : 0];
    uint64_t time_ms = last->time_ms - ps_min(last->time_ms, first->time_ms);
    bool is_less = last->resident_bytes < first->resident_bytes;
    uint64_t bytes = is_less ? first->resident_bytes - last->resident_bytes
                             : last->resident_bytes - first->resident_bytes;
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, is_less ? "resident memory shrank by " : "resident memory grew by ");
    ps_text_add_rounded_size(&text, bytes, 0);
    ps_text_add(&text, " in ");
    ps_text_add_number(&text, time_ms / MS_PER_SECOND);
    ps_text_add(&text, ".");
    ps_text_add_number(&text, time_ms % MS_PER_SECOND / (MS_PER_SECOND / 10));
    ps_text_add(&text, " s");
    if (time_ms >= RATE_MS) {
        ps_text_add(&text, ", ");
        ps_text_add_rounded_size(&text, bytes * MS_PER_MINUTE / time_ms, 0);
        ps_text_add(&text, " a minute");
    }
    set_comment(record, PS_FLIGHT_COMMENT_GROWTH, &text);
}

static void set_state(struct ps_flight_record *record, uint64_t resident_bytes, const char *word) {
    char buffer[TEXT_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, word);
    ps_text_add(&text, ": ");
    ps_text_add_rounded_size(&text, resident_bytes, 0);
    ps_text_add(&text, " resident");
    add_time(&text);
    set_comment(record, PS_FLIGHT_COMMENT_STATE, &text);
}

/* ---- points ---- */

void ps_flight_record_point(struct ps_flight_record *record, const char *word, bool is_due) {
    struct growth *growth = (struct growth *)(void *)(record->file.memory + record->growth);
    uint64_t now_ms = ps_os_now_ms();
    uint64_t time_ms = wall_ms();
    uint64_t resident_bytes = ps_os_rss_bytes();
    uint64_t count = growth->x_count;
    growth->points[count % POINTS] = (struct point){time_ms, resident_bytes, ps_table_live_bytes()};
    ps_store_release(&growth->x_count, count + 1); /* release: after the point */
    ps_flight_set_word(&record->file, record->duration,
                       (time_ms - ps_min(time_ms, record->begin_ms)) * NS_PER_MS);
    set_parts(record, now_ms, resident_bytes, is_due);
    set_growth(record, growth, count + 1);
    set_state(record, resident_bytes, word);
}

/* ---- the mark ---- */

void ps_flight_add_usage(struct ps_text *text, const struct ps_limit_mark *mark) {
    ps_text_add_rounded_size(text, mark->usage_bytes, 0);
    ps_text_add(text, " in use of the ");
    ps_text_add_rounded_size(text, mark->limit_bytes, 0);
    ps_text_add(text, " of ");
    ps_text_add(text, mark->source);
}

void ps_flight_record_mark(struct ps_flight_record *record, const struct ps_limit_mark *mark) {
    char buffer[TEXT_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_flight_add_usage(&text, mark);
    add_time(&text);
    set_comment(record, PS_FLIGHT_COMMENT_MARK, &text);
}
