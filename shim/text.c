/* SPDX-License-Identifier: MIT */
/*
 * Formatting into a fixed buffer. Called by configuration, statistics and introspection; calls
 * the kernel's write and ppoll only. No locks.
 */
#include "shim/text.h"

#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define DECIMAL_BYTES 20     /* digits of UINT64_MAX */
#define QUOTED_LIMIT 64      /* bytes of a value that a message repeats */
#define FULL_PIPE_ATTEMPTS 8 /* sleeps of FULL_PIPE_WAIT_NS before a full pipe is given up */
#define FULL_PIPE_WAIT_NS 125000000

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

PS_AT_START struct ps_str ps_str_of(const char *string) {
    return (struct ps_str){.data = string, .length = strlen(string)};
}

PS_AT_START bool ps_str_equals(struct ps_str str, const char *string) {
    return str.length == strlen(string) && memcmp(str.data, string, str.length) == 0;
}

PS_AT_START bool ps_str_equals_any_case(struct ps_str a, struct ps_str b) {
    if (a.length != b.length) {
        return false;
    }
    for (size_t i = 0; i < a.length; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

PS_AT_START struct ps_str ps_str_trim(struct ps_str str) {
    while (str.length > 0 && is_blank(str.data[0])) {
        str.data++;
        str.length--;
    }
    while (str.length > 0 && is_blank(str.data[str.length - 1])) {
        str.length--;
    }
    return str;
}

static int wait_until_writable(int fd) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    struct timespec wait = {.tv_nsec = FULL_PIPE_WAIT_NS};
    return (int)ps_syscall6(SYS_ppoll, (long)&poll_fd, 1, (long)&wait, 0, 0, 0);
}

int ps_write_all(int fd, const char *data, size_t bytes) {
    int attempts = 0;
    while (bytes > 0) {
        long written = ps_syscall3(SYS_write, fd, (long)data, (long)bytes);
        if (written > 0) {
            data += written;
            bytes -= (size_t)written;
            attempts = 0;
            continue;
        }
        if (written == -EINTR) {
            continue;
        }
        /* Programs such as node make a shared stderr pipe non-blocking. */
        if (written == -EAGAIN && attempts++ < FULL_PIPE_ATTEMPTS) {
            wait_until_writable(fd);
            continue;
        }
        return written == 0 ? EIO : (int)-written;
    }
    return 0;
}

void ps_text_start(struct ps_text *text, char *buffer, size_t capacity, int fd) {
    *text = (struct ps_text){.data = buffer, .capacity = capacity, .fd = fd};
}

void ps_text_start_sink(struct ps_text *text, char *buffer, size_t capacity, ps_text_sink *sink,
                        void *context) {
    ps_text_start(text, buffer, capacity - 1, PS_TEXT_TO_SINK); /* room for the terminator */
    text->sink = sink;
    text->context = context;
}

bool ps_text_flush(struct ps_text *text) {
    if (text->fd == PS_TEXT_TO_BUFFER) {
        return !text->has_failed;
    }
    if (text->fd == PS_TEXT_TO_SINK) {
        text->data[text->length] = '\0';
        text->sink(text->context, text->data);
    } else if (!text->has_failed) {
        text->error = ps_write_all(text->fd, text->data, text->length);
        text->has_failed = text->error != 0;
    }
    text->length = 0;
    return !text->has_failed;
}

void ps_text_add_str(struct ps_text *text, struct ps_str str) {
    while (str.length > 0) {
        if (text->length == text->capacity) {
            if (text->fd == PS_TEXT_TO_BUFFER) {
                text->has_failed = true;
                return;
            }
            ps_text_flush(text);
        }
        size_t room = text->capacity - text->length;
        size_t part = str.length < room ? str.length : room;
        memcpy(text->data + text->length, str.data, part);
        text->length += part;
        str.data += part;
        str.length -= part;
    }
}

void ps_text_add(struct ps_text *text, const char *string) {
    ps_text_add_str(text, ps_str_of(string));
}

void ps_text_add_spaces(struct ps_text *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_text_add_str(text, (struct ps_str){.data = " ", .length = 1});
    }
}

/* The digits are at the end of `out`. */
static struct ps_str decimal(char out[DECIMAL_BYTES], uint64_t value) {
    size_t start = DECIMAL_BYTES;
    do {
        out[--start] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return (struct ps_str){.data = out + start, .length = DECIMAL_BYTES - start};
}

static void add_str_right(struct ps_text *text, struct ps_str str, size_t width) {
    if (str.length < width) {
        ps_text_add_spaces(text, width - str.length);
    }
    ps_text_add_str(text, str);
}

void ps_text_add_number(struct ps_text *text, uint64_t value) {
    char digits[DECIMAL_BYTES];
    ps_text_add_str(text, decimal(digits, value));
}

void ps_text_add_left(struct ps_text *text, const char *string, size_t width) {
    struct ps_str str = ps_str_of(string);
    ps_text_add_str(text, str);
    if (str.length < width) {
        ps_text_add_spaces(text, width - str.length);
    }
}

void ps_text_add_right(struct ps_text *text, const char *string, size_t width) {
    add_str_right(text, ps_str_of(string), width);
}

void ps_text_add_number_right(struct ps_text *text, uint64_t value, size_t width) {
    char digits[DECIMAL_BYTES];
    add_str_right(text, decimal(digits, value), width);
}

static const char size_units[][4] = {"", "KiB", "MiB", "GiB"};

void ps_text_add_size(struct ps_text *text, uint64_t bytes) {
    size_t unit = 0;
    while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    ps_text_add_number(text, bytes);
    ps_text_add(text, size_units[unit]);
}

/* "12.5" from 125. */
static void add_tenths(struct ps_text *text, uint64_t tenths) {
    ps_text_add_number(text, tenths / 10);
    ps_text_add(text, ".");
    ps_text_add_number(text, tenths % 10);
}

void ps_text_add_rounded_size(struct ps_text *text, uint64_t bytes, size_t width) {
    char part[DECIMAL_BYTES + 8];
    struct ps_text cell;
    ps_text_start(&cell, part, sizeof part, PS_TEXT_TO_BUFFER);
    if (bytes < 1024) {
        ps_text_add_number(&cell, bytes);
        ps_text_add(&cell, " B");
    } else {
        size_t unit = 1;
        uint64_t divisor = 1024;
        while (unit < 3 && bytes / divisor >= 1024) {
            divisor *= 1024;
            unit++;
        }
        add_tenths(&cell, bytes / divisor * 10 + bytes % divisor * 10 / divisor);
        ps_text_add(&cell, " ");
        ps_text_add(&cell, size_units[unit]);
    }
    add_str_right(text, (struct ps_str){.data = part, .length = cell.length}, width);
}

void ps_text_add_percent(struct ps_text *text, uint64_t part, uint64_t whole, size_t width) {
    char digits[DECIMAL_BYTES + 8];
    struct ps_text cell;
    ps_text_start(&cell, digits, sizeof digits, PS_TEXT_TO_BUFFER);
    /* part <= whole in every caller; above 2^54 bytes the product would overflow. */
    uint64_t tenths = 0;
    if (whole != 0) {
        tenths = part <= UINT64_MAX / 1000 ? part * 1000 / whole : part / (whole / 1000);
    }
    add_tenths(&cell, tenths);
    add_str_right(text, (struct ps_str){.data = digits, .length = cell.length}, width);
}

void ps_text_add_path(struct ps_text *text, const char *string) {
    for (; *string != '\0'; string++) {
        unsigned char byte = (unsigned char)*string;
        char c = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
        ps_text_add_str(text, (struct ps_str){.data = &c, .length = 1});
    }
}

void ps_text_add_json(struct ps_text *text, const char *string) {
    ps_text_add(text, "\"");
    for (; *string != '\0'; string++) {
        char c = *string >= 0x20 && *string < 0x7f ? *string : '?';
        if (c == '"' || c == '\\') {
            ps_text_add(text, "\\");
        }
        ps_text_add_str(text, (struct ps_str){.data = &c, .length = 1});
    }
    ps_text_add(text, "\"");
}

void ps_text_add_quoted(struct ps_text *text, struct ps_str str) {
    size_t shown = str.length < QUOTED_LIMIT ? str.length : QUOTED_LIMIT;
    char clean[QUOTED_LIMIT];
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)str.data[i];
        clean[i] = c < 0x20 || c >= 0x7f || c == '"' ? '?' : (char)c;
    }
    ps_text_add(text, "\"");
    ps_text_add_str(text, (struct ps_str){.data = clean, .length = shown});
    ps_text_add(text, shown < str.length ? "...\"" : "\"");
}
