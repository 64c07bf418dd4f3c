/* SPDX-License-Identifier: MIT */
/*
 * Messages of profile.proto (github.com/google/pprof) in the wire format of protocol buffers: what
 * the heap profile (profile_pprof.c) and the flight record (flight_record.c, flight_sites.c) have
 * in common. Memory is the caller's. Allocates nothing, takes no lock; any thread.
 */
#ifndef PS_SHIM_PPROF_H
#define PS_SHIM_PPROF_H

#include "shim/process.h"

#include <stddef.h>
#include <stdint.h>

/* Fields of a profile. */
enum ps_pprof_field {
    PS_PPROF_SAMPLE_TYPE = 1,
    PS_PPROF_SAMPLE = 2,
    PS_PPROF_MAPPING = 3,
    PS_PPROF_LOCATION = 4,
    PS_PPROF_FUNCTION = 5,
    PS_PPROF_STRING = 6,
    PS_PPROF_TIME_NANOS = 9,
    PS_PPROF_DURATION_NANOS = 10,
    PS_PPROF_PERIOD_TYPE = 11,
    PS_PPROF_PERIOD = 12,
    PS_PPROF_COMMENT = 13,
    PS_PPROF_DEFAULT_TYPE = 14,
};

/* Fields of a sample. */
enum { PS_PPROF_SAMPLE_LOCATIONS = 1, PS_PPROF_SAMPLE_VALUES = 2, PS_PPROF_SAMPLE_LABEL = 3 };

/* The labels of a pool's sample: its family, and its name if it has one. */
#define PS_PPROF_LABEL_FAMILY "pool family"
#define PS_PPROF_LABEL_NAME "pool"

/* Locations without an address, each with a function of its number; others begin at FIRST. */
enum { PS_PPROF_LOST = 1, PS_PPROF_NO_STACK = 2, PS_PPROF_FIRST = 3 };

/* A message under construction. Fields that do not fit are left out; the longest is a sample, of 10
 * bytes for each location and value. */
#define PS_PPROF_MESSAGE_BYTES 1024

struct ps_pprof_message {
    size_t length;
    unsigned char bytes[PS_PPROF_MESSAGE_BYTES];
};

#define PS_PPROF_VARINT_BYTES 10 /* of the longest */

/* Writes a number; returns its length. */
size_t ps_pprof_put_varint(unsigned char *at, uint64_t value);

void ps_pprof_add_varint(struct ps_pprof_message *message, uint64_t value);
void ps_pprof_add_number(struct ps_pprof_message *message, unsigned field, uint64_t value);

/* The head of a field of bytes, which follow. */
void ps_pprof_add_head(struct ps_pprof_message *message, unsigned field, size_t bytes);

/* A message within the message. */
void ps_pprof_add_inner(struct ps_pprof_message *message, unsigned field,
                        const struct ps_pprof_message *inner);

/* ---- whole messages: they replace what the struct has; names are numbers of strings ---- */

void ps_pprof_set_type(struct ps_pprof_message *message, uint64_t type, uint64_t unit);
void ps_pprof_set_mapping(struct ps_pprof_message *message, uint64_t id,
                          const struct ps_mapping *mapping, uint64_t name, uint64_t build_id);

/* file: 0: none. No system name is set: pprof would take it for a name of C++ and leave "<module>"
 * out. */
void ps_pprof_set_function(struct ps_pprof_message *message, uint64_t id, uint64_t name,
                           uint64_t file);

/* A location in a file's code; mapping: 0: none. */
void ps_pprof_set_address(struct ps_pprof_message *message, uint64_t id, uint64_t mapping,
                          uintptr_t address);

/* A location in the function of the same number; line: 0: none. */
void ps_pprof_set_line(struct ps_pprof_message *message, uint64_t id, uint64_t line);

/* Adds a label to a sample; key and text are numbers of strings. */
void ps_pprof_add_label(struct ps_pprof_message *sample, uint64_t key, uint64_t text);

/* The build id of a mapping, as text. */
#define PS_PPROF_BUILD_ID_BYTES (2 * (size_t)PS_BUILD_ID_BYTES + 1)
void ps_pprof_build_id(char out[PS_PPROF_BUILD_ID_BYTES], const struct ps_mapping *mapping);

#endif
