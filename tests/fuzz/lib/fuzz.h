/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share: reading decisions off the input, and checks that end the process.
 * A target defines LLVMFuzzerTestOneInput; it is linked with libFuzzer (preset fuzz), or with
 * lib/replay.c, whose main runs files. Decisions beyond the end of the input are 0, so every input
 * is a valid one.
 */
#ifndef PS_FUZZ_FUZZ_H
#define PS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's names. The second may be missing: replay.c has a weak one. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
int LLVMFuzzerInitialize(int *count, char ***arguments);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

__attribute__((noreturn, unused)) static void fuzz_fail(const char *file, int line,
                                                        const char *condition) {
    fprintf(stderr, "%s:%d: %s is false\n", file, line, condition);
    abort();
}

struct fuzz_input {
    const uint8_t *bytes;
    size_t count;
};

static inline bool fuzz_is_over(const struct fuzz_input *input) { return input->count == 0; }

static inline uint8_t fuzz_byte(struct fuzz_input *input) {
    if (input->count == 0) {
        return 0;
    }
    input->count--;
    return *input->bytes++;
}

/* Little-endian, whatever the machine, so that a corpus means the same everywhere. */
static inline uint32_t fuzz_number(struct fuzz_input *input, unsigned bytes) {
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint32_t)fuzz_byte(input) << (8 * i);
    }
    return value;
}

static inline uint32_t fuzz_below(struct fuzz_input *input, uint32_t limit) {
    return fuzz_byte(input) % limit;
}

/*
 * A size out of two bytes: 0 to 255 as they are, then each power of two up to 2^(8 + powers - 1)
 * and 255 steps above it. With an odd first byte the size is at, or one or two beside, a power.
 */
static inline size_t fuzz_size(struct fuzz_input *input, unsigned powers) {
    unsigned kind = fuzz_byte(input);
    size_t low = fuzz_byte(input);
    unsigned power = (kind >> 1) % (powers + 1);
    if (power == 0) {
        return low;
    }
    size_t base = (size_t)128 << power;
    return (kind & 1) != 0 ? base + low % 5 - 2 : base + (base >> 8) * low;
}

#endif
