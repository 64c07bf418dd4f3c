/* SPDX-License-Identifier: MIT */
/*
 * Writes a gzip file (RFC 1952) of stored blocks, without compression: readers of profiles expect
 * the container, and a library that compresses is no dependency of a malloc. Owns no state; the
 * struct is the caller's. Allocates nothing. No locks.
 */
#ifndef PS_SHIM_GZIP_H
#define PS_SHIM_GZIP_H

#include <stddef.h>
#include <stdint.h>

#define PS_GZIP_BUFFER_BYTES 8192 /* of a stored block, which has 65535 at most */

struct ps_gzip {
    int fd;
    int error; /* errno of the first failed write, or 0; nothing is written after it */
    uint32_t crc;
    uint32_t total; /* bytes so far, modulo 2^32 */
    size_t length;  /* bytes in the buffer */
    unsigned char buffer[PS_GZIP_BUFFER_BYTES];
};

void ps_gzip_start(struct ps_gzip *gzip, int fd);
void ps_gzip_add(struct ps_gzip *gzip, const void *data, size_t bytes);

/* Writes the end of the file. Returns 0 or the errno of the first failed write. */
int ps_gzip_finish(struct ps_gzip *gzip);

#endif
