/* SPDX-License-Identifier: MIT */
/*
 * The layout: the places of the library's counters and tables, for a reader outside of the process.
 * The command `poolshim` finds it as the symbol poolshim_layout of the mapped library, and computes
 * the figures of the census from the memory that it names, by process_vm_readv alone. Nothing in
 * the process takes part in that: no call, no thread, no lock.
 *
 *   places   names and addresses of variables. Relocated by the dynamic loader: before that they
 *            are offsets in the library, which lie outside of its mapping
 *            Those named set. may also be written, a word at a time: settings that may change,
 *            and the demand for samples of profile/demand.h
 *            The first ones are the counters of one word, by their names in figures.def
 *   numbers  names, offsets and lengths of the fields of their structures; constants of length 0
 *
 * A reader knows both by name, so that fields may move and names may be added. A change of what a
 * name means, or of an equation between fields (slab.h, medium.h), is
 * another version. Each word that is read was right at some moment during the reading; sums of
 * several words are off by what threads do meanwhile, as those of the census are. docs/stats.md has
 * the bounds. The other side: scripts/poolshim_cli/live/.
 *
 * Constant. Callers: none in the library.
 */
#ifndef PS_RECORD_LAYOUT_H
#define PS_RECORD_LAYOUT_H

#include <stdint.h>

#define PS_LAYOUT_MAGIC "poolshim layout" /* with a terminator */
#define PS_LAYOUT_VERSION 3

enum ps_layout_word {
#define PS_FIGURE(...)
#define PS_FIGURE_IF(...)
#define PS_WORD(section, key, unit, name, word, metric, label, help) PS_LAYOUT_WORD_##name,
#include "pools/engine/record/figures.def"
    PS_LAYOUT_WORDS
};

#define PS_LAYOUT_PLACES (42 + PS_LAYOUT_WORDS)

struct ps_layout_place {
    char name[24];
    const void *address;
    uint64_t bytes; /* of the variable; 0: an array of unknown length */
};

struct ps_layout_number {
    char name[28];
    uint32_t bytes;
    uint64_t value;
};

struct ps_layout {
    char magic[16];                                  /*  0 */
    uint32_t version;                                /* 16 */
    uint32_t bytes;                                  /* 20 of this struct */
    uint32_t place_count;                            /* 24 */
    uint32_t number_count;                           /* 28 */
    const struct ps_layout_number *numbers;          /* 32 */
    struct ps_layout_place places[PS_LAYOUT_PLACES]; /* 40 */
};

/* Protected: exported, and no other library's. */
extern const struct ps_layout poolshim_layout __attribute__((visibility("protected")));

#endif
