/* SPDX-License-Identifier: MIT */
/*
 * See gzip.h.
 */
#include "shim/gzip.h"

#include "shim/text.h"

#include <stdbool.h>
#include <string.h>

#define CRC_POLYNOMIAL 0xedb88320u /* of RFC 1952, reflected */

static uint32_t crc_of(uint32_t crc, const unsigned char *data, size_t bytes) {
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (CRC_POLYNOMIAL & -(crc & 1));
        }
    }
    return ~crc;
}

static void put(struct ps_gzip *gzip, const void *data, size_t bytes) {
    if (gzip->error == 0) {
        gzip->error = ps_write_all(gzip->fd, data, bytes);
    }
}

/* Little-endian, as all numbers of the format. */
static void store(unsigned char *at, uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static void put_block(struct ps_gzip *gzip, bool is_last) {
    unsigned char head[5] = {is_last};
    store(head + 1, (uint32_t)gzip->length, 2);
    store(head + 3, ~(uint32_t)gzip->length, 2);
    put(gzip, head, sizeof head);
    put(gzip, gzip->buffer, gzip->length);
    gzip->crc = crc_of(gzip->crc, gzip->buffer, gzip->length);
    gzip->total += (uint32_t)gzip->length;
    gzip->length = 0;
}

void ps_gzip_start(struct ps_gzip *gzip, int fd) {
    /* No name, no time; the system is unknown. */
    static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
    gzip->fd = fd;
    gzip->error = 0;
    gzip->crc = 0;
    gzip->total = 0;
    gzip->length = 0;
    put(gzip, head, sizeof head);
}

void ps_gzip_add(struct ps_gzip *gzip, const void *data, size_t bytes) {
    const unsigned char *from = data;
    while (bytes > 0) {
        size_t room = sizeof gzip->buffer - gzip->length;
        size_t part = bytes < room ? bytes : room;
        memcpy(gzip->buffer + gzip->length, from, part);
        gzip->length += part;
        from += part;
        bytes -= part;
        if (gzip->length == sizeof gzip->buffer) {
            put_block(gzip, false);
        }
    }
}

int ps_gzip_finish(struct ps_gzip *gzip) {
    unsigned char tail[8];
    put_block(gzip, true);
    store(tail, gzip->crc, 4);
    store(tail + 4, gzip->total, 4);
    put(gzip, tail, sizeof tail);
    return gzip->error;
}
