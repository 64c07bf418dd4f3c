/* SPDX-License-Identifier: MIT */
/*
 * Text without stdio: appends strings and numbers to a fixed buffer and writes it with write(2).
 * Owns no state; the buffer is the caller's. Called by the whole shim, from inside malloc and from
 * library destructors: allocates nothing, takes no lock, leaves errno alone.
 */
#ifndef PS_SHIM_TEXT_H
#define PS_SHIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that need not end in NUL. */
struct ps_str {
    const char *data;
    size_t length; /* bytes */
};

struct ps_str ps_str_of(const char *string);
bool ps_str_equals(struct ps_str str, const char *string);
bool ps_str_equals_any_case(struct ps_str a, struct ps_str b);
/* Without blanks and tabs at both ends. */
struct ps_str ps_str_trim(struct ps_str str);

#define PS_TEXT_TO_BUFFER (-1)
#define PS_TEXT_TO_SINK (-2)

/* Takes a part of a text, which ends in NUL. */
typedef void ps_text_sink(void *context, const char *part);

/*
 * length <= capacity. With a descriptor or a sink the buffer is written out whenever it is full;
 * without one (PS_TEXT_TO_BUFFER) text beyond the capacity is dropped and has_failed set.
 */
struct ps_text {
    char *data;
    size_t capacity; /* bytes */
    size_t length;   /* bytes in the buffer */
    int fd;
    bool has_failed; /* something was lost; sticky */
    int error;       /* errno of the first failed write, or 0 */
    ps_text_sink *sink;
    void *context; /* of the sink */
};

void ps_text_start(struct ps_text *text, char *buffer, size_t capacity, int fd);
void ps_text_start_sink(struct ps_text *text, char *buffer, size_t capacity, ps_text_sink *sink,
                        void *context);
void ps_text_add(struct ps_text *text, const char *string);
void ps_text_add_str(struct ps_text *text, struct ps_str str);
void ps_text_add_spaces(struct ps_text *text, size_t count);
void ps_text_add_number(struct ps_text *text, uint64_t value);
/* The string followed by blanks up to `width`. */
void ps_text_add_left(struct ps_text *text, const char *string, size_t width);
/* Blanks, then the string (or number), `width` wide in all. */
void ps_text_add_right(struct ps_text *text, const char *string, size_t width);
void ps_text_add_number_right(struct ps_text *text, uint64_t value, size_t width);
/* "4MiB", "1KiB", "100": exact, in the largest unit that divides the value. */
void ps_text_add_size(struct ps_text *text, uint64_t bytes);
/* "3.9 MiB", "100 B": rounded down to a tenth, `width` wide. */
void ps_text_add_rounded_size(struct ps_text *text, uint64_t bytes, size_t width);
/* part/whole as "12.5", `width` wide; 0.0 when whole is 0. */
void ps_text_add_percent(struct ps_text *text, uint64_t part, uint64_t whole, size_t width);
/* In double quotes, unprintable bytes and quotes as '?', cut after 64 bytes with "...". */
void ps_text_add_quoted(struct ps_text *text, struct ps_str str);
/* Unchanged, except that control characters, which would end the line or control the terminal,
 * become '?'. */
void ps_text_add_path(struct ps_text *text, const char *string);
/* As a string of JSON. Input may be any bytes; JSON is UTF-8, so non-ASCII bytes become '?'. */
void ps_text_add_json(struct ps_text *text, const char *string);
/* Writes out the buffer. Returns false when anything was lost since the start. */
bool ps_text_flush(struct ps_text *text);

/*
 * Writes all of it; retries a full non-blocking descriptor for at most a second. Returns 0 or the
 * errno of the failure.
 */
int ps_write_all(int fd, const char *data, size_t bytes);

#endif
