/* SPDX-License-Identifier: MIT */
/*
 * The content of a flight record beside the stacks: the head of the profile, comments that change,
 * and points of growth. Called by flight.c, one thread at a time. Owns nothing; allocates nothing.
 */
#ifndef PS_SHIM_FLIGHT_RECORD_H
#define PS_SHIM_FLIGHT_RECORD_H

#include "pools/engine/heap/limit.h"
#include "pools/engine/record/census.h"
#include "shim/flight.h"
#include "shim/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Comments, in this order; all but the first change. */
enum ps_flight_comment {
    PS_FLIGHT_COMMENT_PROCESS,
    PS_FLIGHT_COMMENT_STATE,
    PS_FLIGHT_COMMENT_PARTS,
    PS_FLIGHT_COMMENT_GROWTH,
    PS_FLIGHT_COMMENT_MARK,
    PS_FLIGHT_COMMENTS,
};

struct ps_flight_record {
    struct ps_flight_file file;
    size_t comments[PS_FLIGHT_COMMENTS]; /* the offsets of their texts in the file */
    size_t history;                      /* likewise */
    size_t duration;
    uint64_t begin_ms; /* since 1970 */
    uint64_t next_census_ms;
    struct ps_census census; /* the last; here, since the stack may be small */
};

/* Begins the file. memory: zero. */
void ps_flight_record_begin(struct ps_flight_record *record, unsigned char *memory, size_t bytes);

/* Enters a point of growth, and changes the comments; word: the state. is_due: the parts of the
 * memory are counted in any case, else every ten seconds. */
void ps_flight_record_point(struct ps_flight_record *record, const char *word, bool is_due);

/* Enters the mark. */
void ps_flight_record_mark(struct ps_flight_record *record, const struct ps_limit_mark *mark);

/* "95.0 MiB in use of the 100.0 MiB of memory.max". */
void ps_flight_add_usage(struct ps_text *text, const struct ps_limit_mark *mark);

#endif
