/* SPDX-License-Identifier: MIT */
/*
 * The two headers of an arena's file: which counts, and how the next is written. See arena.h.
 */
#include "pools/arena/arena.h"

#include <stddef.h>
#include <string.h>

static const char magic[8] = "psarena";

static uint64_t sum_of(const struct arena_header *header) {
    return ps_arena_sum(header, offsetof(struct arena_header, sum), 0);
}

static bool is_sound(const struct arena_header *header, unsigned page) {
    return memcmp(header->magic, magic, sizeof magic) == 0 && header->sum == sum_of(header) &&
           (header->edition & 1) == page && header->bytes % ARENA_PAGE == 0;
}

static bool is_empty(const struct arena_header *header) {
    static const struct arena_header zero;
    return memcmp(header, &zero, sizeof zero) == 0;
}

/* Why a file without a sound header is none. */
static enum ps_arena_status refusal(const struct arena_header headers[2]) {
    for (int i = 0; i < 2; i++) {
        if (memcmp(headers[i].magic, magic, sizeof magic) == 0) {
            return headers[i].byte_order == ARENA_BYTE_ORDER ? PS_ARENA_CORRUPT : PS_ARENA_FOREIGN;
        }
    }
    return PS_ARENA_FOREIGN;
}

enum ps_arena_status ps_arena_pick_header(int fd, struct arena_header *header, bool *is_damaged) {
    struct arena_header headers[2];
    bool are_sound[2];
    for (unsigned page = 0; page < 2; page++) {
        if (!ps_arena_read(fd, &headers[page], sizeof headers[page], (uint64_t)page * ARENA_PAGE)) {
            return PS_ARENA_SYSTEM;
        }
        are_sound[page] = is_sound(&headers[page], page);
        /* A later version may have another sum. */
        if (memcmp(headers[page].magic, magic, sizeof magic) == 0 &&
            headers[page].byte_order == ARENA_BYTE_ORDER && headers[page].version > ARENA_VERSION) {
            return PS_ARENA_NEWER;
        }
    }
    if (!are_sound[0] && !are_sound[1]) {
        return refusal(headers);
    }
    unsigned newest =
        are_sound[0] && are_sound[1] ? headers[1].edition > headers[0].edition : are_sound[1];
    *header = headers[newest];
    *is_damaged = !are_sound[1 - newest] && !is_empty(&headers[1 - newest]);
    return header->version == ARENA_VERSION ? PS_ARENA_OK : PS_ARENA_CORRUPT;
}

bool ps_arena_write_header(int fd, struct arena_header *header) {
    memcpy(header->magic, magic, sizeof magic);
    header->version = ARENA_VERSION;
    header->byte_order = ARENA_BYTE_ORDER;
    header->sum = sum_of(header);
    return ps_arena_write(fd, header, sizeof *header, (header->edition & 1) * ARENA_PAGE);
}
