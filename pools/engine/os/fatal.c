/* SPDX-License-Identifier: MIT */
/*
 * Fatal messages. Called from any layer after a misuse or a failed check. No locks, no allocation.
 */
#include "pools/engine/os/fatal.h"

#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 160
#define TAIL_BYTES 80 /* reserved for the text behind the words: an address, two numbers */

struct line {
    char text[LINE_BYTES];
    size_t length;
};

/* Appends words up to `limit`, which leaves room for the numbers behind them. */
static void add_words(struct line *line, const char *words, size_t limit) {
    for (; *words != '\0' && line->length < limit; words++) {
        line->text[line->length++] = *words;
    }
}

static void add_number(struct line *line, uintptr_t value, unsigned base) {
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (count != 0) {
        line->text[line->length++] = digits[--count];
    }
}

static void add_what(struct line *line, const char *what, const void *address) {
    line->length = 0;
    add_words(line, "poolshim: ", LINE_BYTES - TAIL_BYTES);
    add_words(line, what, LINE_BYTES - TAIL_BYTES);
    add_words(line, " 0x", LINE_BYTES);
    add_number(line, (uintptr_t)address, 16);
}

static void print(struct line *line) {
    add_words(line, "\n", LINE_BYTES);
    ps_os_write(2, line->text, line->length);
}

void ps_report_address(const char *what, const void *address) {
    struct line line;
    add_what(&line, what, address);
    print(&line);
}

PS_COLD PS_NORETURN void ps_fatal_address(const char *what, const void *address) {
    ps_report_address(what, address);
    abort();
}

PS_COLD PS_NORETURN void ps_fatal_block(const char *what, const void *block, size_t class_bytes) {
    struct line line;
    add_what(&line, what, block);
    add_words(&line, " (size class ", LINE_BYTES);
    add_number(&line, class_bytes, 10);
    add_words(&line, ", thread ", LINE_BYTES);
    add_number(&line, ps_os_thread_number(), 10);
    add_words(&line, ")", LINE_BYTES);
    print(&line);
    abort();
}

PS_COLD PS_NORETURN void ps_check_failed(const char *text) {
    ps_os_write(2, text, strlen(text));
    abort();
}
