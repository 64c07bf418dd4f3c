/* SPDX-License-Identifier: MIT */
/*
 * Statistics: one report of the heap, as a readable table or as JSON, at exit or on request. Owns
 * the copy of stderr that outlives the program's own. Called by the library's constructor and
 * destructor, by malloc_stats and by poolshim_stats_write. Allocates nothing, uses no stdio.
 * Stack: about 10 KiB. No locks; the census takes the engine's.
 */
#ifndef PS_SHIM_STATS_H
#define PS_SHIM_STATS_H

#include "pools/engine/front/partition.h"
#include "pools/engine/record/census.h"
#include "shim/process.h"
#include "shim/text.h"

#include <stdint.h>

#define PS_REPORT_HEAPS 20

/*
 * small_bytes == small_live_bytes + small_waste_bytes
 * live_bytes == small_live_bytes + census.run_live_bytes + census.map_live_bytes
 */
struct ps_report {
    struct ps_census census;
    struct ps_process_memory process;
    uint64_t live_bytes;
    uint64_t small_live_blocks;
    uint64_t small_slabs;
    uint64_t small_waste_bytes; /* of the slabs, without a live block */
    uint64_t malloc_rate;       /* a second, since the start or the last periodic report */
    uint64_t free_rate;         /* likewise */
    uint64_t pid;
    const char *program;
    uint64_t heap_count; /* partitions of the heap; the rows: those with the most live bytes */
    size_t heap_rows;
    struct ps_report_heap {
        char name[PS_PARTITION_NAME_BYTES];
        struct ps_partition_use use;
    } heaps[PS_REPORT_HEAPS];
};

enum ps_row_unit {
    PS_UNIT_BYTES,
    PS_UNIT_COUNT,
    PS_UNIT_WORD, /* no figure but a const char *, NULL: unknown */
};

/* One figure: the table prints `label`, the JSON `key` inside the object `section`. */
struct ps_report_row {
    const char *section;
    const char *key;
    const char *label;
    enum ps_row_unit unit;
    size_t offset;     /* of a uint64_t in struct ps_report, or of the word */
    size_t has_offset; /* of a bool there that says whether the figure is known; 0: it is */
};

extern const struct ps_report_row ps_report_rows[];
extern const size_t ps_report_row_count;

const char *ps_report_word(const struct ps_report *report, const struct ps_report_row *row);
uint64_t ps_report_value(const struct ps_report *report, const struct ps_report_row *row);
bool ps_report_is_known(const struct ps_report *report, const struct ps_report_row *row);
/* Slab bytes of a class without a live block. */
uint64_t ps_report_class_waste(const struct ps_census_class *class);

/* Takes the census and reads /proc. */
void ps_report_take(struct ps_report *report);

void ps_report_print_table(const struct ps_report *report, struct ps_text *text);
void ps_report_print_json(const struct ps_report *report, struct ps_text *text);

/* Parts of these three, by shim/stats_heaps.c. The last two: nothing if there is no heap. */
void ps_report_take_heaps(struct ps_report *report);
void ps_report_heaps_table(const struct ps_report *report, struct ps_text *text);
void ps_report_heaps_json(const struct ps_report *report, struct ps_text *text);

/*
 * Takes a report and writes it to a file named by `pattern` (%p, %%, .json as in POOLSHIM_STATS),
 * below `directory` when the name is relative and directory not NULL. Returns 0 or an errno.
 */
int ps_stats_write_file(const char *pattern, const char *directory);

/* True for the name of a file that gets JSON. */
bool ps_stats_is_json(const char *name);

/* Takes a report and writes the table. Returns 0 or an errno. */
int ps_stats_write_table(int fd);

/* The time of ps_stats_at_start, as of ps_os_now_ms. */
uint64_t ps_stats_start_ms(void);

/* The same without a lock: from a signal handler, or inside of a call of malloc. */
void ps_report_peek(struct ps_report *report);

/* From now on rates are those since this report. */
void ps_report_set_base(const struct ps_report *report, uint64_t now_ms);

/*
 * While the program runs (stats_live.c). Once, from ps_stats_at_start: installs the handlers that
 * the settings ask for, and plans the first report of STATS_EVERY.
 */
void ps_stats_live_start(void);

/* Milliseconds until the next report of STATS_EVERY, which is written if it is due; 0: there is
 * none. By the background thread. */
uint32_t ps_stats_tick(uint64_t now_ms);

/* Once, from the library's constructor, after ps_shim_configure. */
void ps_stats_at_start(void);

/* Once, from the library's destructor. Leaves errno and the exit status alone. */
void ps_stats_at_exit(void);

#endif
