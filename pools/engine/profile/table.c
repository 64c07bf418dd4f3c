/* SPDX-License-Identifier: MIT */
/*
 * See table.h. One mapping: three hash tables of chains, then stacks, samples and lines in the
 * order in which they were made. Samples are reused, the others are not. Lock: table_lock, protects
 * all of it except the constant parts of stacks and lines; taken for a walk over a chain.
 */
#include "pools/engine/profile/table.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/profile/period.h"

#include <string.h>

/* Hashes touch all pages of the buckets: 24 KiB in a table of 16 MiB, at 4096 bytes per bucket 96
 * KiB. Chains become long only where tens of thousands of samples are live. */
#define BYTES_PER_BUCKET 16384
#define MAP_UNIT ((size_t)64 << 10)

/* The longest section is ps_table_add of a new stack: 4 sums, 8 of its two marks, 8 counts, 3
 * heads, twice the end of the used part, the sequence. */
PS_SPARSE PS_UNDO_LOG(table_undo, 32);
static struct ps_lock table_lock = PS_LOCK_INIT_UNDO(PS_RANK_PROFILE, &table_undo);
static struct ps_profile_stack **stacks; /* constant, as the next three */
static struct ps_sample **samples;
static struct ps_line_record **x_lines; /* the pointers change under the lock */
static char *table_end;
struct ps_table_memory ps_table_memory;
static struct ps_sample *free_samples;
struct ps_profile_counts ps_profile_x_counts;
static struct ps_profile_stack *x_newest;
struct ps_profile_stack ps_table_x_lost;

bool ps_table_start(size_t max_bytes) {
    size_t bytes = ps_round_up(max_bytes, MAP_UNIT);
    char *table = ps_metadata_map(bytes);
    if (table == NULL) {
        return false;
    }
    ps_huge_refuse(table, bytes);
    for (ps_table_memory.bucket_count = 1;
         ps_table_memory.bucket_count * 2 * BYTES_PER_BUCKET <= bytes;) {
        ps_table_memory.bucket_count *= 2;
    }
    ps_table_memory.base = table;
    stacks = (struct ps_profile_stack **)table;
    samples = (struct ps_sample **)(stacks + ps_table_memory.bucket_count);
    x_lines = (struct ps_line_record **)(samples + ps_table_memory.bucket_count);
    ps_table_memory.x_used_end = (char *)(x_lines + ps_table_memory.bucket_count);
    table_end = table + bytes;
    ps_store_relaxed(&x_newest, &ps_table_x_lost); /* relaxed: as all of it */
    return true;
}

/* ---- with the lock ---- */

static void *take_memory(size_t bytes) {
    char *memory = ps_table_memory.x_used_end;
    if ((size_t)(table_end - memory) < bytes) {
        return NULL;
    }
    PS_UNDO_NOTE(&table_undo, ps_table_memory.x_used_end);
    ps_store_relaxed(&ps_table_memory.x_used_end, memory + bytes); /* relaxed: one reader guesses */
    return memory;
}

void ps_table_add_to(uint64_t *word, uint64_t amount) {
    PS_UNDO_NOTE(&table_undo, *word);
    ps_store_relaxed(word, *word + amount); /* relaxed: readers want a snapshot */
}

static uint32_t hash_sites(const struct ps_sites *sites) {
    uint64_t hash = sites->count;
    for (size_t i = 0; i < sites->count; i++) {
        hash = (hash ^ sites->sites[i]) * PS_GOLDEN_64;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static struct ps_profile_stack *make_stack(const struct ps_sites *sites, uint32_t hash) {
    size_t site_bytes = sites->count * sizeof sites->sites[0];
    struct ps_profile_stack *stack = take_memory(sizeof *stack + site_bytes);
    if (stack == NULL) {
        ps_table_add_to(&ps_profile_x_counts.lost_stack_count, 1);
        return &ps_table_x_lost;
    }
    struct ps_profile_stack **bucket = &stacks[hash & (ps_table_memory.bucket_count - 1)];
    memset(stack, 0, sizeof *stack); /* a section that was rolled back may have used it */
    stack->hash = hash;
    stack->count = (uint32_t)sites->count;
    memcpy(stack->sites, sites->sites, site_bytes);
    stack->chain = *bucket;
    stack->next = x_newest;
    PS_UNDO_NOTE(&table_undo, *bucket);
    *bucket = stack;
    PS_UNDO_NOTE(&table_undo, x_newest);
    ps_store_release(&x_newest, stack); /* release: pairs with ps_profile_next */
    return stack;
}

static struct ps_profile_stack *stack_of(const struct ps_sites *sites) {
    uint32_t hash = hash_sites(sites);
    struct ps_profile_stack *stack = stacks[hash & (ps_table_memory.bucket_count - 1)];
    for (; stack != NULL; stack = stack->chain) { /* ends with the chain; stacks are bounded */
        if (stack->hash == hash && stack->count == sites->count &&
            memcmp(stack->sites, sites->sites, sites->count * sizeof sites->sites[0]) == 0) {
            return stack;
        }
    }
    return make_stack(sites, hash);
}

static struct ps_sample **bucket_of(const void *block) {
    uint64_t hash = ((uintptr_t)block >> PS_MEDIUM_PAGE_SHIFT) * PS_GOLDEN_64;
    return &samples[(hash >> 32) & (ps_table_memory.bucket_count - 1)];
}

/* The pointer that leads to the sample at an address, or to NULL. */
static struct ps_sample **place_of(const void *block) {
    struct ps_sample **place = bucket_of(block);
    while (*place != NULL && (*place)->block != (uintptr_t)block) { /* ends with the chain */
        place = &(*place)->chain;
    }
    return place;
}

static uint64_t bytes_of(const struct ps_sample *sample) {
    return ps_draw_weighted(sample->weight, sample->bytes);
}

static uint64_t medium_bytes_of(const struct ps_sample *sample) {
    return ps_round_up(sample->bytes, ps_max(ps_os_page_bytes(), PS_MEDIUM_PAGE_BYTES));
}

static void link_sample(struct ps_sample *sample, const void *block) {
    struct ps_sample **bucket = bucket_of(block);
    sample->block = (uintptr_t)block;
    sample->chain = *bucket;
    PS_UNDO_NOTE(&table_undo, *bucket);
    *bucket = sample;
}

static struct ps_sample *unlink_sample(const void *block) {
    struct ps_sample **place = place_of(block);
    struct ps_sample *sample = *place;
    if (sample != NULL) {
        PS_UNDO_NOTE(&table_undo, *place);
        *place = sample->chain;
    }
    return sample;
}

static void count_made(const struct ps_sample *sample) {
    ps_table_add_to(&ps_profile_x_counts.sample_count, 1);
    ps_table_add_to(&sample->stack->x_sums.made_weight, sample->weight);
    ps_table_add_to(&sample->stack->x_sums.made_bytes, bytes_of(sample));
}

/* sign: PS_TABLE_ALLOCATED or PS_TABLE_FREED. */
static void count_live(const struct ps_sample *sample, uint64_t sign) {
    ps_table_add_to(&sample->stack->x_sums.live_weight, sign * sample->weight);
    ps_table_add_to(&sample->stack->x_sums.live_bytes, sign * bytes_of(sample));
    ps_table_add_to(&ps_profile_x_counts.live_bytes, sign * bytes_of(sample));
    if (sample->is_medium) {
        ps_table_add_to(&ps_profile_x_counts.medium_count, sign);
        ps_table_add_to(&ps_profile_x_counts.medium_bytes, sign * medium_bytes_of(sample));
    }
    ps_period_count(sample, sign);
}

/* After all changes of its sums. */
static void copy_sums(const struct ps_profile_stack *stack) {
    if (stack->x_place != 0) {
        ps_profile_changed(stack);
    }
}

static void return_sample(struct ps_sample *sample) {
    PS_UNDO_NOTE(&table_undo, sample->chain);
    PS_UNDO_NOTE(&table_undo, free_samples);
    sample->chain = free_samples;
    free_samples = sample;
}

static struct ps_sample *take_sample(void) {
    struct ps_sample *sample = free_samples;
    if (sample == NULL) {
        return take_memory(sizeof *sample);
    }
    PS_UNDO_NOTE(&table_undo, free_samples);
    free_samples = sample->chain;
    return sample;
}

/* ---- lines ---- */

static uint64_t hash_text(uint64_t hash, const char *text, size_t bytes) {
    for (; bytes >= sizeof hash; bytes -= sizeof hash, text += sizeof hash) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * PS_GOLDEN_64;
        hash ^= hash >> 32;
    }
    uint64_t rest = bytes;
    for (size_t i = 0; i < bytes; i++) {
        rest = rest << 8 | (unsigned char)text[i];
    }
    hash = (hash ^ rest) * PS_GOLDEN_64;
    return hash ^ hash >> 32;
}

static uint32_t hash_line(const struct ps_profile_line *line) {
    uint64_t hash = hash_text(line->number, line->file, line->file_bytes);
    return (uint32_t)hash_text(hash, line->function, line->function_bytes);
}

static struct ps_line_record **bucket_of_line(uint32_t hash) {
    return &x_lines[hash & (ps_table_memory.bucket_count - 1)];
}

/* Compares texts of one length; by words, since most are equal. */
static bool is_text(const char *one, const char *other, size_t bytes) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
        uint64_t words[2];
        memcpy(&words[0], one, sizeof words[0]);
        memcpy(&words[1], other, sizeof words[1]);
        if (words[0] != words[1]) {
            return false;
        }
        one += sizeof words[0];
        other += sizeof words[1];
    }
    for (size_t i = 0; i < bytes; i++) {
        if (one[i] != other[i]) {
            return false;
        }
    }
    return true;
}

static bool is_line(const struct ps_line_record *record, const struct ps_profile_line *line) {
    return record->number == line->number && record->file_bytes == line->file_bytes &&
           record->function_bytes == line->function_bytes &&
           is_text(record->text, line->file, line->file_bytes) &&
           is_text(record->text + line->file_bytes, line->function, line->function_bytes);
}

static struct ps_line_record *find_line(const struct ps_profile_line *line, uint32_t hash) {
    /* acquire: pairs with make_line; makes the record visible, and those that it leads to. */
    struct ps_line_record *record = ps_load_acquire(bucket_of_line(hash));
    while (record != NULL && !(record->hash == hash && is_line(record, line))) {
        record = record->chain; /* ends with the chain; records are bounded */
    }
    return record;
}

/* With the lock. */
static struct ps_line_record *make_line(const struct ps_profile_line *line, uint32_t hash) {
    size_t text_bytes = line->file_bytes + line->function_bytes;
    struct ps_line_record **bucket = bucket_of_line(hash);
    struct ps_line_record *record = take_memory(
        ps_round_up(offsetof(struct ps_line_record, text) + text_bytes, sizeof(uint64_t)));
    if (record == NULL) {
        return NULL;
    }
    record->chain = *bucket;
    record->hash = hash;
    record->number = line->number;
    record->file_bytes = (uint8_t)line->file_bytes;
    record->function_bytes = (uint8_t)line->function_bytes;
    memcpy(record->text, line->file, line->file_bytes);
    memcpy(record->text + line->file_bytes, line->function, line->function_bytes);
    PS_UNDO_NOTE(&table_undo, *bucket);
    ps_store_release(bucket, record); /* release: pairs with find_line */
    return record;
}

/* ---- any thread ---- */

void ps_table_begin_change(void) {
    ps_lock_acquire(&table_lock);
    PS_UNDO_NOTE(&table_undo, ps_table_memory.x_sequence);
    /* relaxed: the fence orders it before all changes, which a reader's system calls see so. */
    ps_store_relaxed(&ps_table_memory.x_sequence, ps_table_memory.x_sequence + 1);
    ps_fence_stores();
}

void ps_table_end_change(void) {
    /* release: after all changes. */
    ps_store_release(&ps_table_memory.x_sequence, ps_table_memory.x_sequence + 1);
    ps_lock_release(&table_lock);
}

bool ps_table_add(const struct ps_sample *new_one, const struct ps_sites *sites) {
    struct ps_sample made = *new_one;
    ps_table_begin_change();
    made.stack = stack_of(sites);
    count_made(&made);
    made.number = (uint32_t)ps_profile_x_counts.sample_count;
    struct ps_sample *sample = take_sample();
    if (sample != NULL) {
        PS_UNDO_NOTE(&table_undo, sample->chain); /* it may have been a free one */
        *sample = made;
        count_live(&made, PS_TABLE_ALLOCATED);
        link_sample(sample, (const void *)made.block);
    } else {
        ps_table_add_to(&ps_profile_x_counts.lost_block_count, 1);
    }
    copy_sums(made.stack);
    ps_table_end_change();
    return sample != NULL;
}

uintptr_t ps_profile_line_site(const struct ps_profile_line *line) {
    if (ps_max(line->file_bytes, line->function_bytes) > PS_PROFILE_TEXT_BYTES) {
        return 0;
    }
    uint32_t hash = hash_line(line);
    struct ps_line_record *record = find_line(line, hash);
    if (record == NULL) {
        ps_table_begin_change();
        record = find_line(line, hash); /* another thread may have made it */
        record = record != NULL ? record : make_line(line, hash);
        ps_table_end_change();
    }
    return record != NULL
               ? PS_PROFILE_LINE_SITE + (uintptr_t)((char *)record - ps_table_memory.base)
               : 0;
}

void ps_profile_line_of(uintptr_t site, struct ps_profile_line *out) {
    const struct ps_line_record *record =
        (const struct ps_line_record *)(ps_table_memory.base + (site - PS_PROFILE_LINE_SITE));
    out->file = record->text;
    out->file_bytes = record->file_bytes;
    out->function = record->text + record->file_bytes;
    out->function_bytes = record->function_bytes;
    out->number = record->number;
}

void ps_table_set_requested(const void *block, size_t bytes) {
    ps_table_begin_change();
    struct ps_sample *sample = *place_of(block);
    if (sample != NULL) {
        PS_UNDO_NOTE(&table_undo, sample->requested_bytes);
        sample->requested_bytes = bytes;
    }
    ps_table_end_change();
}

size_t ps_table_find(const void *block) {
    ps_lock_acquire(&table_lock);
    const struct ps_sample *sample = *place_of(block);
    size_t bytes = sample != NULL ? sample->bytes : 0;
    ps_lock_release(&table_lock);
    return bytes;
}

size_t ps_table_remove(const void *block) {
    ps_table_begin_change();
    struct ps_sample *sample = unlink_sample(block);
    size_t bytes = 0;
    if (sample != NULL) {
        bytes = sample->bytes;
        count_live(sample, PS_TABLE_FREED);
        copy_sums(sample->stack);
        return_sample(sample);
    }
    ps_table_end_change();
    return bytes;
}

struct ps_sample *ps_table_take(const void *block) {
    ps_table_begin_change();
    struct ps_sample *sample = unlink_sample(block);
    ps_table_end_change();
    return sample;
}

void ps_table_put(struct ps_sample *sample, const void *block) {
    ps_table_begin_change();
    link_sample(sample, block);
    ps_table_end_change();
}

void ps_table_drop(struct ps_sample *sample) {
    ps_table_begin_change();
    count_live(sample, PS_TABLE_FREED);
    copy_sums(sample->stack);
    return_sample(sample);
    ps_table_end_change();
}

void ps_table_walk(void (*visit)(const struct ps_sample *sample, void *context), void *context) {
    for (size_t i = 0; i < ps_table_memory.bucket_count; i++) {
        ps_lock_acquire(&table_lock);
        for (const struct ps_sample *one = samples[i]; one != NULL; one = one->chain) {
            visit(one, context);
        }
        ps_lock_release(&table_lock);
    }
}

size_t ps_table_sample_limit(void) {
    /* relaxed: an upper bound, also when it grows meanwhile by a few. */
    const char *end = ps_load_relaxed(&ps_table_memory.x_used_end);
    return (size_t)(end - ps_table_memory.base) / sizeof(struct ps_sample);
}

const struct ps_profile_stack *ps_profile_next(const struct ps_profile_stack *stack) {
    /* acquire: pairs with make_stack; makes the constant parts of the stack visible. */
    return stack != NULL ? stack->next : ps_load_acquire(&x_newest);
}

void ps_profile_read_sums(const struct ps_profile_stack *stack, struct ps_profile_sums *out) {
    ps_lock_acquire(&table_lock);
    *out = stack->x_sums;
    ps_lock_release(&table_lock);
}

void ps_profile_set_place(const struct ps_profile_stack *stack, uint32_t place) {
    struct ps_profile_stack *changed = (struct ps_profile_stack *)stack; /* all are in the table */
    ps_lock_acquire(&table_lock);
    changed->x_place = place;
    copy_sums(changed);
    ps_lock_release(&table_lock);
}

__attribute__((weak)) void ps_profile_changed(const struct ps_profile_stack *stack) { (void)stack; }

/* relaxed: a figure that may be old when it is used. */
uint64_t ps_table_live_bytes(void) { return ps_load_relaxed(&ps_profile_x_counts.live_bytes); }

void ps_profile_count(struct ps_profile_counts *out) {
    ps_lock_acquire(&table_lock);
    *out = ps_profile_x_counts;
    ps_lock_release(&table_lock);
}

void ps_table_fork_child(void) { ps_lock_fork_child(&table_lock); }
