/* SPDX-License-Identifier: MIT */
/*
 * See flight.h. The order of the stores of an append: the filler after the new message, the gap
 * before that, the content, and at last the header, which replaces that of the old filler. No
 * locks: one thread at a time appends.
 */
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "shim/flight.h"

#include <string.h>

#define WORD PS_FLIGHT_WORD_BYTES
#define FILLER_FIELD 100 /* not of profile.proto; readers skip it */

/* A varint of exactly `bytes` bytes. */
static void put_padded(unsigned char *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, value >>= 7) {
        at[i] = (unsigned char)((value & 0x7f) | (i + 1 < bytes ? 0x80 : 0));
    }
}

/* The word that begins a field of bytes: its tag and its length. */
static uint64_t header_of(unsigned field, uint64_t length) {
    unsigned char bytes[WORD];
    uint64_t word;
    size_t tag = ps_pprof_put_varint(bytes, field << 3 | 2);
    put_padded(bytes + tag, length, sizeof bytes - tag);
    memcpy(&word, bytes, sizeof word);
    return word;
}

static void store_word(const struct ps_flight_file *file, size_t offset, uint64_t word) {
    /* release: all that the word makes readable is stored before. */
    ps_store_release((uint64_t *)(void *)(file->memory + offset), word);
}

static void put_filler(const struct ps_flight_file *file, size_t offset) {
    store_word(file, offset, header_of(FILLER_FIELD, file->bytes - offset - WORD));
}

/* A filler of a few bytes. */
static void put_gap(unsigned char *at, size_t bytes) {
    size_t head = ps_pprof_put_varint(at, FILLER_FIELD << 3 | 2);
    at[head] = (unsigned char)(bytes - head - 1);
}

void ps_flight_file_start(struct ps_flight_file *file, unsigned char *memory, size_t bytes) {
    *file = (struct ps_flight_file){.memory = memory, .bytes = bytes};
    put_filler(file, 0);
}

size_t ps_flight_append(struct ps_flight_file *file, unsigned field, const void *data,
                        size_t length) {
    size_t content = file->end + WORD;
    size_t end = ps_round_up(content + length, WORD);
    size_t gap = end - content - length;
    end += gap == 1 || gap == 2 ? WORD : 0; /* the shortest filler has 3 bytes */
    gap = end - content - length;
    if (length > file->bytes || end + WORD > file->bytes) {
        return 0;
    }
    put_filler(file, end);
    if (gap != 0) {
        put_gap(file->memory + content + length, gap);
    }
    if (data != NULL) { /* else the memory is zero already */
        memcpy(file->memory + content, data, length);
    }
    store_word(file, file->end, header_of(field, length));
    file->end = end;
    return content;
}

size_t ps_flight_append_numbers(struct ps_flight_file *file, const struct ps_pprof_message *numbers,
                                unsigned field) {
    /* The tag of the number that changes ends a word. */
    size_t word = ps_round_up(file->end + numbers->length + 1, WORD);
    size_t gap = word - 1 - numbers->length - file->end;
    word += gap == 1 || gap == 2 ? WORD : 0;
    gap = word - 1 - numbers->length - file->end;
    put_filler(file, word + WORD);
    if (gap != 0) {
        put_gap(file->memory + file->end, gap);
    }
    memcpy(file->memory + file->end + gap, numbers->bytes, numbers->length);
    file->memory[word - 1] = (unsigned char)(field << 3);
    put_padded(file->memory + word, 0, WORD);
    file->end = word + WORD;
    return word;
}

size_t ps_flight_file_end(struct ps_flight_file *file) {
    store_word(file, file->end, header_of(FILLER_FIELD, 0));
    file->bytes = file->end + WORD;
    return file->bytes;
}

uint32_t ps_flight_string(struct ps_flight_file *file, const char *text) {
    return ps_flight_append(file, PS_PPROF_STRING, text, strlen(text)) != 0 ? file->strings++ : 0;
}

void ps_flight_set_word(const struct ps_flight_file *file, size_t offset, uint64_t value) {
    unsigned char bytes[WORD];
    uint64_t word;
    put_padded(bytes, value, sizeof bytes);
    memcpy(&word, bytes, sizeof word);
    store_word(file, offset, word);
}

/* ---- messages ---- */

size_t ps_flight_add_words(struct ps_pprof_message *message, unsigned field, size_t count) {
    uint64_t header = header_of(field, count * WORD);
    memcpy(message->bytes, &header, sizeof header);
    for (size_t i = 1; i <= count; i++) {
        put_padded(message->bytes + i * WORD, 0, WORD);
    }
    message->length = (1 + count) * WORD;
    return WORD;
}
