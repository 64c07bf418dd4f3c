/* SPDX-License-Identifier: MIT */
/*
 * See flight_record.h. No locks.
 */
#include "shim/flight_record.h"

#include "pools/engine/base/atomic.h"
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
#define PARTS 32          /* likewise: five minutes and more */
#define MARKS 4           /* likewise: the last ones */
#define GROWTH_POINTS 300 /* of the comment on growth: five minutes */
#define RATE_MS 10000     /* for which growth is given as a rate, too */
#define CENSUS_MS 10000   /* between two counts of the parts of the memory, which cost about a */
#define CENSUS_SHARE 100  /* million instructions; more: a hundredth of the time */
#define TEXT_BYTES 160    /* of a comment that changes */
#define MS_PER_MINUTE 60000
#define MS_PER_SECOND 1000
#define NS_PER_MS 1000000

#define HISTORY_FIELD 101 /* of struct history; not of profile.proto: other readers skip it */
#define HISTORY_VERSION 2
#define SOURCE_BYTES 24

struct point {
    uint64_t time_ms; /* since 1970 */
    uint64_t resident_bytes;
    uint64_t live_bytes; /* by the samples */
};

struct parts {
    uint64_t time_ms;
    uint64_t resident_bytes;
    uint64_t live_bytes;  /* of malloc's blocks, counted */
    uint64_t pool_bytes;  /* pages that pools have taken */
    uint64_t slab_bytes;  /* free in slabs */
    uint64_t page_bytes;  /* free pages */
    uint64_t limit_bytes; /* 0: there is none, or it is not known yet */
};

struct mark {
    uint64_t time_ms;
    uint64_t usage_bytes;
    uint64_t limit_bytes;
    char source[SOURCE_BYTES]; /* zeroes after the text */
};

/* Three rings, each entry complete before it is counted. Read by scripts/poolshim_cli/flight.py. */
struct history {
    uint32_t version; /* HISTORY_VERSION */
    uint32_t point_capacity;
    uint32_t part_capacity;
    uint32_t mark_capacity;
    uint64_t x_point_count; /* so far, as the next two */
    uint64_t x_part_count;
    uint64_t x_mark_count;
    struct point points[POINTS];
    struct parts parts[PARTS];
    struct mark marks[MARKS];
};

_Static_assert(sizeof(struct history) == 40 + 24 * POINTS + 56 * PARTS + 48 * MARKS,
               "as flight.py reads it");

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

static void put_history(struct ps_flight_record *record) {
    static const uint32_t head[] = {HISTORY_VERSION, POINTS, PARTS, MARKS};
    struct ps_flight_file *file = &record->file;
    record->history = ps_flight_append(file, HISTORY_FIELD, NULL, sizeof(struct history));
    memcpy(file->memory + record->history, head, sizeof head);
}

static struct history *history_of(const struct ps_flight_record *record) {
    return (struct history *)(void *)(record->file.memory + record->history);
}

static void put_numbers(struct ps_flight_record *record) {
    struct ps_pprof_message numbers = {.length = 0};
    ps_pprof_add_number(&numbers, PS_PPROF_TIME_NANOS, record->begin_ms * NS_PER_MS);
    /* relaxed: a number by itself. */
    ps_pprof_add_number(&numbers, PS_PPROF_PERIOD,
                        ps_load_relaxed(&ps_profile_settings.x_interval_bytes));
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
    put_history(record);
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
static void count_parts(struct ps_census *census, struct parts *out) {
    ps_census_peek(census);
    out->live_bytes = census->small_live_bytes + census->run_live_bytes + census->map_live_bytes;
    out->pool_bytes = census->pages_bytes;
    out->slab_bytes =
        census->small_slab_bytes - ps_min(census->small_slab_bytes, census->small_live_bytes);
    out->page_bytes =
        census->cache_dirty_bytes + census->run_cached_bytes + census->map_cached_bytes;
    out->limit_bytes = ps_limit_of_mark();
}

static void add_parts(struct ps_text *text, const struct parts *parts) {
    uint64_t heap = parts->live_bytes + parts->pool_bytes + parts->slab_bytes + parts->page_bytes;
    add_part(text, "live", parts->live_bytes);
    if (parts->pool_bytes != 0) {
        add_part(text, "pools", parts->pool_bytes);
    }
    add_part(text, "free in slabs", parts->slab_bytes);
    add_part(text, "free pages", parts->page_bytes);
    add_part(text, "other resident memory",
             parts->resident_bytes - ps_min(parts->resident_bytes, heap));
}

static void set_parts(struct ps_flight_record *record, const struct point *point, uint64_t now_ms) {
    char buffer[TEXT_BYTES];
    struct ps_text text;
    struct history *history = history_of(record);
    struct parts parts = {.time_ms = point->time_ms, .resident_bytes = point->resident_bytes};
    count_parts(&record->census, &parts);
    history->parts[history->x_part_count % PARTS] = parts;
    ps_store_release(&history->x_part_count, history->x_part_count + 1); /* release: after it */
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    add_parts(&text, &parts);
    set_comment(record, PS_FLIGHT_COMMENT_PARTS, &text);
    uint64_t taken_ms = ps_os_now_ms() - now_ms;
    record->next_census_ms = now_ms + ps_max(CENSUS_SHARE * taken_ms, CENSUS_MS);
}

static void set_growth(struct ps_flight_record *record) {
    const struct history *history = history_of(record);
    uint64_t count = history->x_point_count;
    char buffer[TEXT_BYTES];
    struct ps_text text;
    const struct point *last = &history->points[(count - 1) % POINTS];
    const struct point *first =
        &history->points[count > GROWTH_POINTS ? (count - GROWTH_POINTS) % POINTS : 0];
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
    struct history *history = history_of(record);
    uint64_t now_ms = ps_os_now_ms();
    const struct point point = {.time_ms = wall_ms(),
                                .resident_bytes = ps_os_rss_bytes(),
                                .live_bytes = ps_table_live_bytes()};
    history->points[history->x_point_count % POINTS] = point;
    ps_store_release(&history->x_point_count, history->x_point_count + 1); /* release: after it */
    ps_flight_set_word(&record->file, record->duration,
                       (point.time_ms - ps_min(point.time_ms, record->begin_ms)) * NS_PER_MS);
    if (now_ms >= record->next_census_ms || is_due) {
        set_parts(record, &point, now_ms);
    }
    set_growth(record);
    set_state(record, point.resident_bytes, word);
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
    struct history *history = history_of(record);
    struct mark *entry = &history->marks[history->x_mark_count % MARKS];
    *entry = (struct mark){
        .time_ms = wall_ms(), .usage_bytes = mark->usage_bytes, .limit_bytes = mark->limit_bytes};
    memcpy(entry->source, mark->source, strnlen(mark->source, SOURCE_BYTES));
    ps_store_release(&history->x_mark_count, history->x_mark_count + 1); /* release: after it */
    ps_text_start(&text, buffer, sizeof buffer, PS_TEXT_TO_BUFFER);
    ps_flight_add_usage(&text, mark);
    add_time(&text);
    set_comment(record, PS_FLIGHT_COMMENT_MARK, &text);
}
