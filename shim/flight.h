/* SPDX-License-Identifier: MIT */
/*
 * The flight record, POOLSHIM_FLIGHT: a file that holds the live memory by call site, its growth
 * and its parts at any moment, also after SIGKILL. docs/flight.md explains it.
 *
 * The file is a mapping of this process: the engine's table of stacks is copied into it with each
 * sample, so nothing has to be written when the process ends. It is a
 * whole profile in pprof's format at any moment (flight_file.c).
 *
 * The file is made at the first sample, about POOLSHIM_PROFILE_INTERVAL bytes after the start. The
 * child of a fork makes its own at its first sample. A process that ends by exit renames its file.
 *
 * Allocates nothing: its tables are a mapping of bounded size. No locks; flight.c says how threads
 * take turns.
 */
#ifndef PS_SHIM_FLIGHT_H
#define PS_SHIM_FLIGHT_H

#include "shim/pprof.h"

#include <stddef.h>
#include <stdint.h>

/* Once each, from the library's constructor and destructor. They preserve errno. */
void ps_flight_at_start(void);
void ps_flight_at_exit(void);

/* After a sample, without locks: enters stacks that the file does not have, and a point of growth
 * if it is due. Preserves errno. */
void ps_flight_sampled(void);

/* The same, from the background thread: a point of growth if it is due. */
void ps_flight_tick(void);

/* ---- the file (flight_file.c) ---- */

/*
 * A profile of pprof's format, not compressed, in a mapping of constant length. Messages are
 * appended; after the last comes a filler, a field that readers skip. The header of a message is
 * one aligned word, and is stored last, so a process may end between any two instructions. Numbers
 * that change have a constant length, as varints padded to 8 bytes; each is one aligned word, too.
 */
struct ps_flight_file {
    unsigned char *memory; /* NULL: there is none */
    size_t bytes;
    size_t end;       /* of the messages, and of the last byte before the filler's header */
    uint32_t strings; /* entered so far */
};

#define PS_FLIGHT_WORD_BYTES 8

/* The first strings of a file, in this order. */
enum ps_flight_string {
    PS_FLIGHT_STRING_EMPTY,
    PS_FLIGHT_STRING_ALLOC_OBJECTS,
    PS_FLIGHT_STRING_ALLOC_SPACE,
    PS_FLIGHT_STRING_INUSE_OBJECTS,
    PS_FLIGHT_STRING_INUSE_SPACE,
    PS_FLIGHT_STRING_COUNT,
    PS_FLIGHT_STRING_BYTES,
    PS_FLIGHT_STRING_SPACE,
    PS_FLIGHT_STRING_LOST,
    PS_FLIGHT_STRING_NO_STACK,
    PS_FLIGHT_STRING_POOL_FAMILY,
    PS_FLIGHT_STRING_POOL_NAME,
    PS_FLIGHT_STRINGS,
};

/* The head of `count` numbers that change, and the numbers, zero, at the returned offset. The
 * message must be empty. */
size_t ps_flight_add_words(struct ps_pprof_message *message, unsigned field, size_t count);
/* memory: zero. */
void ps_flight_file_start(struct ps_flight_file *file, unsigned char *memory, size_t bytes);

/* Appends a message; returns the offset of its content in the file, 0: there is no room. data:
 * NULL: zeroes. */
size_t ps_flight_append(struct ps_flight_file *file, unsigned field, const void *data,
                        size_t length);

/* Appends numbers, which are fields of the profile, and one more that changes; returns its offset.
 * While the file is made: readers may see a part. */
size_t ps_flight_append_numbers(struct ps_flight_file *file, const struct ps_pprof_message *numbers,
                                unsigned field);

/* Ends the file after the last message, so that no other is added; returns its length. */
size_t ps_flight_file_end(struct ps_flight_file *file);

/* Enters a string; returns its number, 0: there is no room. */
uint32_t ps_flight_string(struct ps_flight_file *file, const char *text);

/* Changes a number at an offset, less than 2^56. */
void ps_flight_set_word(const struct ps_flight_file *file, size_t offset, uint64_t value);

/* ---- names (flight_name.c) ---- */

/* Writes the name of the function at an address of a file, "" if it is not known: from its table of
 * symbols, which is read from the disk, bounded. offset: of the address in the file. */
void ps_flight_name(char *out, size_t capacity, const char *file, uint64_t offset);

#endif
