/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the size-class tables from any table of block sizes and any end. A table is taken
 * exactly when it is one that the manual allows, and then fulfils every promise of size_class.h.
 */
#include "pools/engine/small/size_class.h"

#include "pools/engine/page/page_map.h"
#include "tests/fuzz/lib/fuzz.h"

#define SPAN_GRANULES_MAX 16

static size_t block_bytes(uint32_t index) { return ps_size_classes[index].block_bytes; }

/* Half of the tables ascend in steps of 16, as valid ones must; the others are anything. */
static void read_config(struct fuzz_input *input, struct ps_config *config) {
    *config = (struct ps_config)PS_CONFIG_DEFAULT;
    uint8_t kind = fuzz_byte(input);
    config->class_count = fuzz_below(input, PS_CLASS_LIMIT + 2);
    config->small_max_bytes =
        (kind & 2) != 0 ? fuzz_number(input, 3) % (PS_CLASS_BYTES_LIMIT + 1) : 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < config->class_count && i < PS_CLASS_LIMIT; i++) {
        if ((kind & 1) != 0) {
            config->class_bytes[i] = fuzz_number(input, 3);
        } else {
            last = i == 0 && (kind & 4) != 0 ? 8 : last / 16 * 16 + 16 * (1 + fuzz_byte(input));
            config->class_bytes[i] = last;
        }
    }
}

/* The rules of the manual: ascending, 8 to 64 KiB, multiples of 16 except a first 8, at most 63. */
static bool is_allowed(const struct ps_config *config) {
    if (config->class_count > PS_CLASS_LIMIT) {
        return false;
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < config->class_count; i++) {
        uint32_t bytes = config->class_bytes[i];
        if (bytes <= last || bytes > 65536 || (bytes % 16 != 0 && !(i == 0 && bytes == 8))) {
            return false;
        }
        last = bytes;
    }
    return true;
}

/* The look-up goes by multiples of 8: only those, and the sizes right after them, can differ. */
static size_t next_edge(size_t bytes) { return bytes % 8 == 0 ? bytes + 1 : (bytes | 7) + 1; }

/* The smallest class for a request, for every length, so never a smaller one for a longer one. */
static void check_lookup(void) {
    FUZZ_CHECK(ps_size_class_max_bytes == block_bytes(ps_size_class_count - 1));
    uint32_t previous = 0;
    for (size_t bytes = 0; bytes <= PS_CLASS_BYTES_LIMIT; bytes = next_edge(bytes)) {
        uint32_t index = ps_size_class_of(bytes);
        FUZZ_CHECK(index >= previous);
        previous = index;
        if (bytes > ps_size_class_max_bytes) {
            FUZZ_CHECK(index == PS_CLASS_NONE);
            continue;
        }
        FUZZ_CHECK(index < ps_size_class_count && block_bytes(index) >= bytes);
        FUZZ_CHECK(index == 0 || block_bytes(index - 1) < bytes);
    }
}

/* Every block of the class found lies where it was asked to, and no smaller class would do. */
static void check_aligned(size_t bytes, size_t align) {
    uint32_t index = ps_size_class_of_aligned(bytes, align);
    bool is_possible = bytes <= ps_size_class_max_bytes && align <= PS_GRANULE_BYTES;
    for (uint32_t i = 0; i < ps_size_class_count && is_possible; i++) {
        bool fits = block_bytes(i) >= bytes && block_bytes(i) % align == 0;
        FUZZ_CHECK(!fits || index <= i);
    }
    if (index == PS_CLASS_NONE) {
        return;
    }
    const struct ps_size_class *class = &ps_size_classes[index];
    FUZZ_CHECK(is_possible && class->block_bytes >= bytes);
    for (size_t block = class->first; block < class->limit; block++) {
        FUZZ_CHECK(block * class->block_bytes % align == 0);
    }
}

/* What slabs and free streaks rely on. */
static void check_plan(const struct ps_size_class *class) {
    size_t bytes = (size_t) class->granules * PS_GRANULE_BYTES;
    size_t used = (size_t)(class->limit - class->first) * class->block_bytes;
    FUZZ_CHECK(class->granules >= 1 && class->granules <= SPAN_GRANULES_MAX);
    FUZZ_CHECK((size_t) class->limit * class->block_bytes <= bytes);
    FUZZ_CHECK(class->limit >= class->first + 2 && class->limit < 1 << 14);
    FUZZ_CHECK(used * 10 >= bytes * 7);
    FUZZ_CHECK(class->granules == SPAN_GRANULES_MAX || bytes % class->block_bytes * 16 <= bytes);
    if (class->has_streaks) {
        FUZZ_CHECK(class->first >= 1);
        FUZZ_CHECK((size_t) class->limit * class->block_bytes < bytes);
    }
}

/* The user's sizes come first and as they are; what follows are built-in ones up to the end. */
static void check_table(const struct ps_config *config) {
    FUZZ_CHECK(ps_size_class_count >= 1 && ps_size_class_count <= PS_CLASS_LIMIT);
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        FUZZ_CHECK(i == 0 || block_bytes(i) > block_bytes(i - 1));
        FUZZ_CHECK(i >= config->class_count || block_bytes(i) == config->class_bytes[i]);
        check_plan(&ps_size_classes[i]);
    }
    size_t limit = config->small_max_bytes != 0 ? config->small_max_bytes : PS_CLASS_BYTES_LIMIT;
    FUZZ_CHECK(ps_size_class_max_bytes <= limit); /* unset: 8 KiB, or the user's last */
    if (config->class_count > 0) {
        return;
    }
    for (size_t bytes = 1; bytes <= ps_size_class_max_bytes; bytes = next_edge(bytes)) {
        size_t rounding = block_bytes(ps_size_class_of(bytes)) - bytes;
        FUZZ_CHECK(rounding < (bytes < 64 ? 16 : bytes / 4 + 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    struct fuzz_input input = {bytes, count};
    struct ps_config config;
    read_config(&input, &config);
    bool is_valid = ps_size_class_is_valid(config.class_bytes, config.class_count);
    FUZZ_CHECK(is_valid == is_allowed(&config));
    if (!is_valid) {
        return 0;
    }
    size_t last = config.class_count == 0 ? 1024 : config.class_bytes[config.class_count - 1];
    if (config.small_max_bytes != 0 && config.small_max_bytes < last) {
        return 0; /* shim/config.c never lets such a pair through */
    }
    ps_size_class_start(&config);
    check_table(&config);
    check_lookup();
    while (!fuzz_is_over(&input)) {
        size_t wanted = fuzz_size(&input, 10);
        check_aligned(wanted, (size_t)1 << fuzz_below(&input, 20));
    }
    return 0;
}
