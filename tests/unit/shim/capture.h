/* SPDX-License-Identifier: MIT */
/*
 * Captures the output to a descriptor: a file in memory and its text. For the shim's unit tests.
 */
#ifndef PS_TESTS_UNIT_SHIM_CAPTURE_H
#define PS_TESTS_UNIT_SHIM_CAPTURE_H

#include "tests/unit/unit.h"

#include <sys/mman.h>

#define CAPTURE_BYTES 65536

struct capture {
    int fd;
    char text[CAPTURE_BYTES];
};

static inline void capture_start(struct capture *capture) {
    capture->fd = memfd_create("capture", MFD_CLOEXEC);
    REQUIRE(capture->fd >= 0);
}

/* Closes the file and leaves the output in `text`. */
static inline const char *capture_end(struct capture *capture) {
    ssize_t length = pread(capture->fd, capture->text, sizeof capture->text - 1, 0);
    REQUIRE(length >= 0 && (size_t)length < sizeof capture->text - 1);
    capture->text[length] = '\0';
    close(capture->fd);
    return capture->text;
}

static inline size_t capture_lines(const struct capture *capture) {
    size_t lines = 0;
    for (const char *c = capture->text; *c != '\0'; c++) {
        lines += *c == '\n';
    }
    return lines;
}

#endif
