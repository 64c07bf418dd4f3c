/* SPDX-License-Identifier: MIT */
/*
 * See tcmalloc.h: texts, histograms and checks. No locks of its own.
 */
#include "shim/tcmalloc.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/heap/block.h"
#include "shim/text.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define DETAIL_BYTES 10000 /* of a buffer */
#define NUMBER_WIDTH 12
#define MIB_WIDTH 7

static void add_mib(struct ps_text *text, uint64_t bytes) {
    uint64_t tenths = (bytes >> 10) * 10 >> 10;
    char digits[24];
    struct ps_text number;
    ps_text_start(&number, digits, sizeof digits - 1, PS_TEXT_TO_BUFFER);
    ps_text_add_number(&number, tenths / 10);
    ps_text_add(&number, ".");
    ps_text_add_number(&number, tenths % 10);
    digits[number.length] = '\0';
    ps_text_add_right(text, digits, MIB_WIDTH);
}

/* A line of gperftools' report, which programs search for by its label. */
static void add_line(struct ps_text *text, const char *sign, uint64_t bytes, const char *label) {
    ps_text_add(text, "MALLOC: ");
    ps_text_add(text, sign);
    ps_text_add(text, " ");
    ps_text_add_number_right(text, bytes, NUMBER_WIDTH);
    ps_text_add(text, " (");
    add_mib(text, bytes);
    ps_text_add(text, " MiB) ");
    ps_text_add(text, label);
    ps_text_add(text, "\n");
}

static void add_count(struct ps_text *text, uint64_t count, const char *label) {
    ps_text_add(text, "MALLOC:   ");
    ps_text_add_number_right(text, count, NUMBER_WIDTH);
    ps_text_add(text, "              ");
    ps_text_add(text, label);
    ps_text_add(text, "\n");
}

static void add_report(struct ps_text *text, const struct ps_tcmalloc_figures *figures) {
    static const char rule[] = "------------------------------------------------\n";
    static const char sum[] = "MALLOC:   ------------\n";
    ps_text_add(text, rule);
    add_line(text, " ", figures->application, "Bytes in use by application");
    add_line(text, "+", figures->page_free, "Bytes in page heap freelist");
    add_line(text, "+", figures->central, "Bytes in central cache freelist");
    add_line(text, "+", figures->transfer, "Bytes in transfer cache freelist");
    add_line(text, "+", figures->thread, "Bytes in thread cache freelists");
    add_line(text, "+", figures->metadata, "Bytes in malloc metadata");
    ps_text_add(text, sum);
    add_line(text, "=", figures->physical, "Actual memory used (physical + swap)");
    add_line(text, "+", figures->page_unmapped, "Bytes released to OS (aka unmapped)");
    ps_text_add(text, sum);
    add_line(text, "=", figures->virtual, "Virtual address space used");
    ps_text_add(text, "MALLOC:\n");
    add_count(text, figures->span_count, "Spans in use");
    add_count(text, figures->thread_count, "Thread heaps in use");
    add_count(text, PS_TCMALLOC_PAGE_BYTES, "Tcmalloc page size");
    ps_text_add(text, rule);
}

static uint64_t free_blocks(const struct ps_census_class *class) {
    uint64_t all = class->slab_bytes / class->block_bytes;
    return all > class->live_blocks ? all - class->live_blocks : 0;
}

static void add_classes(struct ps_text *text, const struct ps_census *census) {
    uint64_t sum = 0;
    ps_text_add(text, "Free blocks in slabs, windows and fronts, by size class\n");
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        uint64_t count = free_blocks(class);
        if (count == 0) {
            continue;
        }
        sum += count * class->block_bytes;
        ps_text_add(text, "class ");
        ps_text_add_number_right(text, i, 3);
        ps_text_add(text, " [ ");
        ps_text_add_number_right(text, class->block_bytes, 8);
        ps_text_add(text, " bytes ] : ");
        ps_text_add_number_right(text, count, 8);
        ps_text_add(text, " objs; ");
        add_mib(text, count * class->block_bytes);
        ps_text_add(text, " MiB; ");
        add_mib(text, sum);
        ps_text_add(text, " cum MiB\n");
    }
}

void ps_tcmalloc_write_stats(char *buffer, int bytes) {
    struct ps_census census;
    struct ps_tcmalloc_figures figures;
    struct ps_text text;
    int saved_errno = errno;
    if (buffer == NULL || bytes < 1) {
        return;
    }
    ps_tcmalloc_read(&figures, &census);
    ps_text_start(&text, buffer, (size_t)bytes - 1, PS_TEXT_TO_BUFFER);
    add_report(&text, &figures);
    if (bytes >= DETAIL_BYTES) {
        add_classes(&text, &census);
    }
    buffer[text.length] = '\0';
    errno = saved_errno;
}

/* ---- numbers of blocks ---- */

static void count_kind(int histogram[PS_TCMALLOC_HISTOGRAM], uint64_t count, uint64_t bytes) {
    if (count != 0) {
        int *bar = &histogram[ps_log2(ps_max(bytes / count, 1))];
        *bar = (int)ps_min(count + (uint64_t)*bar, INT_MAX);
    }
}

void ps_tcmalloc_count_blocks(int *blocks, size_t *total, int histogram[PS_TCMALLOC_HISTOGRAM]) {
    struct ps_census census;
    int saved_errno = errno;
    ps_census_take(&census);
    uint64_t count = census.run_live_count + census.map_live_count + census.guard_live_count;
    memset(histogram, 0, PS_TCMALLOC_HISTOGRAM * sizeof *histogram);
    for (uint32_t i = 0; i < census.class_count; i++) {
        const struct ps_census_class *class = &census.classes[i];
        count += class->live_blocks;
        count_kind(histogram, class->live_blocks, class->live_blocks * class->block_bytes);
    }
    count_kind(histogram, census.run_live_count, census.run_live_bytes);
    count_kind(histogram, census.map_live_count, census.map_live_bytes);
    count_kind(histogram, census.guard_live_count, census.guard_live_bytes);
    *blocks = (int)ps_min(count, INT_MAX);
    *total = census.small_live_bytes + census.run_live_bytes + census.map_live_bytes +
             census.guard_live_bytes;
    errno = saved_errno;
}

/* ---- checks ---- */

void ps_tcmalloc_verify_all(void) {
    int saved_errno = errno;
    ps_hard_sweep();
    errno = saved_errno;
}

void ps_tcmalloc_verify(const void *block) {
    if (ps_hard_level != 0) {
        (void)ps_block_usable(block);
    }
}
