/* SPDX-License-Identifier: MIT */
/*
 * See size_class.h.
 */
#include "pools/engine/small/size_class.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"

#include <string.h>

#define SMALL_MAX_DEFAULT ((size_t)8192) /* larger requests get medium blocks, if there are any */
#define SLAB_GRANULES_LIMIT 16           /* 1 MiB */
#define SLAB_BLOCKS_WANTED 8             /* with fewer, too many requests take the slow path */
#define STREAK_BLOCK_BYTES 256           /* largest block size with free streaks: see plan_blocks */

/* 16-byte steps to 128, then four per doubling: at most 25 % lost to rounding, 12 % on average.
 * Eight per doubling from 256 to 512. Buffers are often a power of two with a header in front: 528,
 * 1040, 2112 and 4368 leave room for one, and fill a slab. */
static const uint32_t built_in[] = {
    8,     16,    32,    48,    64,    80,    96,    112,   128,   160,   192,   224,  256,  288,
    320,   352,   384,   416,   448,   480,   512,   528,   640,   768,   896,   1024, 1040, 1280,
    1536,  1792,  2048,  2112,  2560,  3072,  3584,  4096,  4368,  5120,  6144,  7168, 8192, 10240,
    12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536,
};
#define BUILT_IN_COUNT (sizeof built_in / sizeof built_in[0])

struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
uint32_t ps_size_class_count;
uint32_t ps_size_class_all_count;
size_t ps_size_class_max_bytes;
/* Aligned so that the entries up to the default maximum, the first 1025, are on one page. */
PS_SPARSE PS_ALIGNED(2048) uint8_t ps_size_class_by_8[PS_CLASS_BYTES_LIMIT / 8 + 1];
uint8_t ps_size_class_by_1[PS_FEW_BYTES + 1];
size_t ps_size_class_guard_bytes;

static uint32_t harden;          /* see struct ps_config */
static bool is_recorded;         /* each free is recorded: see record/record.h */
static size_t usual_limit_bytes; /* of the classes of the same run without recording */

bool ps_size_class_is_valid(const uint32_t *class_bytes, uint32_t count) {
    if (count > PS_CLASS_LIMIT) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_multiple = class_bytes[i] % 16 == 0 || (i == 0 && class_bytes[i] == 8);
        bool is_ascending = i == 0 || class_bytes[i] > class_bytes[i - 1];
        if (class_bytes[i] == 0 || class_bytes[i] > PS_CLASS_BYTES_LIMIT || !is_multiple ||
            !is_ascending) {
            return false;
        }
    }
    return true;
}

/* Shortest slab with enough blocks that loses at most 1/16 of its addresses at the end. */
static uint16_t plan_granules(uint32_t block_bytes) {
    for (size_t granules = 1; granules < SLAB_GRANULES_LIMIT; granules++) {
        size_t bytes = granules << PS_GRANULE_SHIFT;
        if (bytes / block_bytes >= SLAB_BLOCKS_WANTED && (bytes % block_bytes) * 16 <= bytes) {
            return (uint16_t)granules;
        }
    }
    return SLAB_GRANULES_LIMIT;
}

/* True when each block is checked individually: levels 2 and 3 of harden/hard.h. */
static bool is_checked(void) {
    return harden >= PS_HARDEN_CHECK_BLOCKS && harden != PS_HARDEN_MEMORY_TAGS;
}

/* True when each block has a memory tag, which 16 bytes share: harden/mte.h. */
static bool is_tagged(void) { return harden == PS_HARDEN_MEMORY_TAGS; }

/*
 * A free streak recognises the next block by its address alone, so the addresses one step before
 * and after a slab's blocks must never be blocks themselves. Such classes therefore leave out block
 * 0, and the last block where it would end exactly at the granule. That costs 0.8 % at 256 bytes
 * and 0.02 % at 8 bytes; above 256 the saving per free is smaller than the cost.
 */
static void plan_blocks(struct ps_size_class *class) {
    size_t bytes = ((size_t) class->granules << PS_GRANULE_SHIFT) - ps_size_class_guard_bytes;
    class->limit = (uint16_t)(bytes / class->block_bytes);
    bool leaves_ends = class->block_bytes <= STREAK_BLOCK_BYTES && !is_checked();
    class->has_streaks = leaves_ends && !is_recorded;
    class->first = leaves_ends ? 1 : 0;
    bool ends_with_even = is_tagged() && class->limit % 2 != 0; /* the next slab begins with one */
    if ((leaves_ends || ends_with_even) && bytes % class->block_bytes == 0) {
        class->limit--;
    }
}

/* The factor of ps_size_class_scaled: odd times it is 2^(15 - shift) modulo 2^(32 - shift), and
 * of the two such numbers it is the one with an odd m. 0 if a slab has more than one granule. */
static uint32_t factor_of(uint32_t block_bytes, uint32_t granules) {
    uint32_t shift = (uint32_t)__builtin_ctz(block_bytes);
    uint32_t odd = block_bytes >> shift;
    if (granules > 1) {
        return 0;
    }
    uint32_t inverse = odd; /* of 3 bits; each step doubles them (Newton) */
    for (int bits = 3; bits < 32; bits *= 2) {
        inverse *= 2 - odd * inverse;
    }
    uint32_t factor = (inverse << (15 - shift)) & (UINT32_MAX >> shift);
    bool is_m_odd = ((uint64_t)factor * block_bytes >> 32 & 1) != 0;
    return is_m_odd ? factor : factor | (uint32_t)1 << (32 - shift);
}

static void add_class(uint32_t block_bytes) {
    if (is_tagged() && block_bytes % 16 != 0) {
        return;
    }
    struct ps_size_class *class = &ps_size_classes[ps_size_class_all_count++];
    class->block_bytes = block_bytes;
    class->granules = plan_granules(block_bytes);
    class->factor = factor_of(block_bytes, class->granules);
    plan_blocks(class);
    class->scaled_first = (uint32_t) class->first << PS_SCALED_SHIFT;
}

/* Appends the built-in sizes above `last` up to most_bytes. If `room` is too small for all of them,
 * leaves out sizes evenly, counted down from the largest. */
static void add_tail(uint32_t last, size_t most_bytes, size_t room) {
    size_t begin = 0;
    while (begin < BUILT_IN_COUNT && built_in[begin] <= last) {
        begin++;
    }
    size_t end = begin;
    while (end < BUILT_IN_COUNT && built_in[end] <= most_bytes) {
        end++;
    }
    if (room == 0) {
        return;
    }
    size_t step = (end - begin + room - 1) / room;
    for (size_t i = begin; i < end; i++) {
        if ((end - 1 - i) % step == 0) {
            add_class(built_in[i]);
        }
    }
}

static void fill_tables(void) {
    size_t least = 0; /* request that the class serves */
    memset(ps_size_class_by_1, PS_CLASS_NONE, PS_FEW_BYTES + 1);
    for (uint32_t index = 0; index < ps_size_class_count; index++) {
        size_t most = ps_size_classes[index].block_bytes;
        size_t first = (least + 7) >> 3;
        memset(&ps_size_class_by_8[first], (int)index, (most >> 3) + 1 - first);
        if (least <= PS_FEW_BYTES) {
            memset(&ps_size_class_by_1[least], (int)index, ps_min(most, PS_FEW_BYTES) + 1 - least);
        }
        least = most + 1;
    }
    if (harden != 0) { /* requests of size 0: harden/stray.h */
        ps_size_class_by_8[0] = PS_CLASS_NONE;
        ps_size_class_by_1[0] = PS_CLASS_NONE;
    }
}

/* 0 if a page is a large part of a granule. */
static size_t guard_bytes(void) {
    size_t page_bytes = ps_os_page_bytes();
    return is_checked() && page_bytes * 16 <= PS_GRANULE_BYTES ? page_bytes : 0;
}

/* The largest class that is appended, at most. */
static size_t small_max(const struct ps_config *config, bool is_every_size_wanted) {
    return config->small_max_bytes != 0 ? config->small_max_bytes
           : is_every_size_wanted       ? (size_t)PS_CLASS_BYTES_LIMIT
                                        : SMALL_MAX_DEFAULT;
}

void ps_size_class_start(const struct ps_config *config) {
    PS_CHECK(ps_size_class_is_valid(config->class_bytes, config->class_count));
    ps_size_class_all_count = 0;
    harden = config->harden;
    is_recorded = config->record;
    ps_size_class_guard_bytes = guard_bytes();
    for (uint32_t i = 0; i < config->class_count; i++) {
        add_class(config->class_bytes[i]);
    }
    uint32_t last = config->class_count > 0 ? config->class_bytes[config->class_count - 1] : 0;
    usual_limit_bytes = ps_max(last, small_max(config, harden != 0));
    add_tail(last, small_max(config, harden != 0 || is_recorded),
             PS_CLASS_LIMIT - config->class_count);
    ps_size_class_count = ps_size_class_all_count;
    ps_size_class_max_bytes = ps_size_classes[ps_size_class_count - 1].block_bytes;
    fill_tables();
    add_tail((uint32_t)ps_size_class_max_bytes, PS_CLASS_BYTES_LIMIT,
             PS_CLASS_LIMIT - ps_size_class_count);
}

size_t ps_size_class_usual_max_bytes(void) {
    size_t largest = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        if (ps_size_classes[i].block_bytes <= usual_limit_bytes) {
            largest = ps_size_classes[i].block_bytes;
        }
    }
    return largest;
}

/* From a class on, below another one. */
static uint32_t first_aligned(uint32_t index, uint32_t end, size_t bytes, size_t align) {
    for (; index < end; index++) {
        size_t block_bytes = ps_size_classes[index].block_bytes;
        if (block_bytes >= bytes && block_bytes % align == 0) {
            return index;
        }
    }
    return PS_CLASS_NONE;
}

uint32_t ps_size_class_of_aligned(size_t bytes, size_t align) {
    if (bytes > ps_size_class_max_bytes || align > PS_GRANULE_BYTES) {
        return PS_CLASS_NONE;
    }
    return first_aligned(ps_size_class_of(bytes), ps_size_class_count, bytes, align);
}

uint32_t ps_size_class_of_apart(size_t bytes, size_t align) {
    if (align > PS_GRANULE_BYTES) {
        return PS_CLASS_NONE;
    }
    uint32_t first =
        bytes <= ps_size_class_max_bytes ? ps_size_class_of(bytes) : ps_size_class_count;
    return first_aligned(first, ps_size_class_all_count, bytes, align);
}
