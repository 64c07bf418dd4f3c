/* SPDX-License-Identifier: MIT */
/*
 * A gzip file of stored blocks: see profile.h.
 */
#include "shim/profile.h"

#include "shim/text.h"

#include <stdbool.h>
#include <string.h>

#define CRC_POLYNOMIAL 0xedb88320u /* of RFC 1952, reflected */

/* Adds so many bits to a checksum. */
static uint32_t crc_step(uint32_t crc, int bits) {
    for (int bit = 0; bit < bits; bit++) {
        crc = crc >> 1 ^ (CRC_POLYNOMIAL & -(crc & 1));
    }
    return crc;
}

/* Four bits at a time, by a table that is made anew for each block. */
static uint32_t crc_of(uint32_t crc, const unsigned char *data, size_t bytes) {
    uint32_t table[16];
    for (uint32_t i = 0; i < 16; i++) {
        table[i] = crc_step(i, 4);
    }
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
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
