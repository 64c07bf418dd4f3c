/* SPDX-License-Identifier: MIT */
/*
 * The stage: where the play is, and which blocks have honest owners. See attack.h. Owns the table
 * of remembered memory, which lies outside the heap. Calls libc; no locks.
 */
#include "attack.h"
#include "tests/arch/arch.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWNED_MAX (64 * 1024)
#define HUNT_MAX 4096
#define PATTERN_WHOLE (8 * KIB) /* larger blocks have a pattern at both ends only */
#define PATTERN_END (2 * KIB)

/* label == NULL: a block with a pattern. */
struct owned {
    char *start;
    size_t size;
    uint32_t seed;
    const char *label;
};

static struct owned owned[OWNED_MAX];
static size_t owned_count;
static uint32_t next_seed = 1;
static int is_misused;
static uint64_t random_state = 0x5eed;

static void say(const char *word, const char *text) {
    char line[256];
    size_t length = 0;
    for (const char *part = word; *part != '\0' && length < sizeof line - 1; part++) {
        line[length++] = *part;
    }
    for (const char *part = text; *part != '\0' && length < sizeof line - 1; part++) {
        line[length++] = *part;
    }
    line[length++] = '\n';
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length) {
        _exit(3);
    }
}

void stage_misuse(void) {
    is_misused = 1;
    say("misuse", "");
}

void stage_after(void) { say("after", ""); }

void stage_reached(const char *how) {
    if (!is_misused) {
        stage_broken(how);
    }
    say("reached: ", how);
    _exit(0);
}

void stage_unnoticed(const char *how) {
    if (!is_misused) {
        stage_broken(how);
    }
    say("reached: ", how);
    exit(0);
}

void stage_broken(const char *why) {
    say("broken: ", why);
    _exit(2);
}

/* ---- patterns ---- */

static uint64_t pattern_word(uint32_t seed, size_t position) {
    uint64_t mixed = (seed + position) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed | UINT64_C(0x0101010101010101);
}

static size_t pattern_next(size_t position, size_t size) {
    position += 8;
    return size > PATTERN_WHOLE && position == PATTERN_END ? (size - PATTERN_END) & ~(size_t)7
                                                           : position;
}

/* The last bytes of a size that is no multiple of eight are the first bytes of a word. */
static size_t word_bytes(size_t position, size_t size) {
    return size - position < 8 ? size - position : 8;
}

static void pattern_fill(const struct owned *entry) {
    for (size_t i = 0; i < entry->size; i = pattern_next(i, entry->size)) {
        uint64_t word = pattern_word(entry->seed, i);
        memcpy(entry->start + i, &word, word_bytes(i, entry->size));
    }
}

static void pattern_check(const struct owned *entry) {
    if (entry->label != NULL) {
        return;
    }
    for (size_t i = 0; i < entry->size; i = pattern_next(i, entry->size)) {
        uint64_t word = pattern_word(entry->seed, i);
        if (memcmp(entry->start + i, &word, word_bytes(i, entry->size)) != 0) {
            stage_reached("live data of another owner changed");
        }
    }
}

/* ---- who owns what: the table is sorted by address ---- */

/* Index of the first entry that ends after the address. */
static size_t index_of(const char *pointer) {
    uintptr_t address = stage_address(pointer);
    size_t low = 0;
    size_t high = owned_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stage_address(owned[middle].start) + owned[middle].size > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static size_t remember(char *start, size_t size, const char *label) {
    size_t index = index_of(start);
    if (index < owned_count && stage_address(owned[index].start) < stage_address(start) + size) {
        stage_reached(owned[index].label != NULL ? owned[index].label : "one memory, two owners");
    }
    if (owned_count == OWNED_MAX) {
        stage_broken("too many blocks");
    }
    memmove(owned + index + 1, owned + index, (owned_count - index) * sizeof owned[0]);
    owned[index] = (struct owned){start, size, next_seed++, label};
    owned_count++;
    return index;
}

static size_t find(const void *start) {
    size_t index = index_of((const char *)start);
    if (index == owned_count || stage_address(owned[index].start) != stage_address(start)) {
        stage_broken("the attack lost one of its blocks");
    }
    return index;
}

static void remove_at(size_t index) {
    owned_count--;
    memmove(owned + index, owned + index + 1, (owned_count - index) * sizeof owned[0]);
}

char *stage_take_as(void *block, size_t size) {
    if (block == NULL) {
        stage_reached("no memory from malloc");
    }
    pattern_fill(&owned[remember((char *)block, size, NULL)]);
    return (char *)block;
}

void stage_own(void *memory, size_t size, const char *label) {
    remember((char *)memory, size, label);
}

void stage_forget(void *block) { remove_at(find(block)); }

void stage_drop(void *block) {
    size_t index = find(block);
    pattern_check(&owned[index]);
    remove_at(index);
    free(block);
}

void stage_free(void *block) {
    stage_forget(block);
    free(block);
}

void stage_refill(void *block) { pattern_fill(&owned[find(block)]); }

void stage_check(void) {
    for (size_t i = 0; i < owned_count; i++) {
        pattern_check(&owned[i]);
    }
}

char *stage_block_at(const void *address) {
    size_t index = index_of((const char *)address);
    bool is_in = index < owned_count && stage_address(owned[index].start) <= stage_address(address);
    return is_in ? owned[index].start : NULL;
}

/* ---- what comes after ---- */

/* A megabyte at least: lists that are first in, first out give a block back late. */
size_t stage_hunt_count(size_t size) {
    if (size <= MIB / HUNT_MAX) {
        return HUNT_MAX;
    }
    if (size <= 16 * KIB) {
        return MIB / size + 36;
    }
    if (size <= 128 * KIB) {
        return 40;
    }
    return size <= MIB ? 12 : 3;
}

void stage_hunt_by(char *(*take)(size_t size), size_t size) {
    static char *found[HUNT_MAX];
    size_t count = stage_hunt_count(size);
    for (size_t i = 0; i < count; i++) {
        found[i] = take(size);
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 4 != 3) {
            stage_drop(found[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        take(size);
    }
    stage_check();
}

static char *take_for_hunt(size_t size) { return stage_take(size); }

void stage_hunt(size_t size) { stage_hunt_by(take_for_hunt, size); }

static size_t random_below(size_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % limit);
}

static size_t random_size(size_t size) {
    static const size_t usual[] = {8, 16, 24, 64, 200, 1024, 4096};
    switch (random_below(8)) {
    case 0:
    case 1:
        return size <= MIB || random_below(16) == 0 ? size : 1 + size % 5000;
    case 2:
        return 1 + size / 2 % (64 * KIB);
    case 3:
        return size <= MIB ? size * 2 : 100 * KIB;
    case 4:
        return 1 + random_below(2048);
    case 5:
        return 1 + random_below(20 * KIB);
    default:
        return usual[random_below(sizeof usual / sizeof usual[0])];
    }
}

/* Drops a random block; memory with a label is not the heap's and remains. */
static void drop_any(void) {
    if (owned_count > 0) {
        size_t index = random_below(owned_count);
        if (owned[index].label == NULL) {
            stage_drop(owned[index].start);
        }
    }
}

static void drop_all(void) {
    for (size_t index = owned_count; index > 0; index--) {
        if (owned[index - 1].label == NULL) {
            stage_drop(owned[index - 1].start);
        }
    }
}

void stage_end(size_t size, const char *why) {
    stage_check();
    for (int round = 0; round < 2; round++) {
        for (int step = 0; step < 250; step++) {
            if (random_below(5) < 3) {
                stage_take(random_size(size));
            } else {
                drop_any();
            }
        }
        stage_check();
        drop_all();
        stage_hunt(size);
    }
    drop_all();
    say("contained: ", why);
    _exit(0);
}

/* ---- hidden values ---- */

char *stage_chosen(void) {
    static char chosen[4 * KIB] __attribute__((aligned(4096)));
    stage_own(chosen, sizeof chosen, "malloc returned the chosen address");
    return (char *)stage_hide(chosen);
}

uintptr_t stage_address(const void *pointer) { return (uintptr_t)pointer & TEST_ADDRESS_BITS; }

void *stage_hide(const void *pointer) {
    void *hidden = (void *)(uintptr_t)pointer;
    __asm__ volatile("" : "+r"(hidden) : : "memory");
    return hidden;
}

void stage_write(void *memory, int byte, size_t count) {
    volatile char *bytes = (volatile char *)stage_hide(memory);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (char)byte;
    }
}

void stage_write_words(void *memory, uintptr_t value, size_t count) {
    volatile uintptr_t *words = (volatile uintptr_t *)stage_hide(memory);
    for (size_t i = 0; i < count; i++) {
        words[i] = value;
    }
}
