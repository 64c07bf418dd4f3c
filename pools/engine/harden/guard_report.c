/* SPDX-License-Identifier: MIT */
/*
 * Reports on guarded blocks, by write(2) only, because most of this runs in the signal handler. No
 * locks; if several threads fault at once, the first reports and blocks the others.
 */
#include "pools/engine/base/digits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/signals.h"

#define LINE_BYTES 512
#define WHAT_BYTES 96
#define DONE UINT32_MAX

static uint32_t x_reporter; /* 0, id of the reporting thread, or DONE */

struct line {
    char text[LINE_BYTES];
    size_t length;
};

static void add_text(struct line *line, const char *text) {
    while (*text != '\0' && line->length < LINE_BYTES - 1) {
        line->text[line->length++] = *text++;
    }
}

static void add_number(struct line *line, uintptr_t value, unsigned base) {
    char digits[PS_DIGITS_BYTES];
    add_text(line, ps_digits(digits, value, base));
}

static void add_address(struct line *line, const void *address) {
    add_text(line, "0x");
    add_number(line, (uintptr_t)address, 16);
}

static void end_line(struct line *line) {
    line->text[line->length++] = '\n';
    ps_os_write(2, line->text, line->length);
    line->length = 0;
}

/* Default hook of an engine without a shim: the report has the address only. */
__attribute__((weak)) void ps_guard_name(uintptr_t site, char *text, size_t capacity) {
    (void)site;
    text[0] = '\0';
    (void)capacity;
}

static void write_trace(const char *what, const struct ps_guard_trace *trace) {
    struct line line = {.length = 0};
    add_text(&line, "  ");
    add_text(&line, what);
    add_text(&line, " by thread ");
    add_number(&line, trace->thread, 10);
    add_text(&line, trace->count != 0 ? " at:" : ", no trace");
    end_line(&line);
    for (size_t i = 0; i < trace->count && i < PS_GUARD_FRAMES; i++) {
        char name[LINE_BYTES - 32];
        ps_guard_name(trace->sites[i], name, sizeof name);
        add_text(&line, "    ");
        add_address(&line, (const void *)trace->sites[i]);
        add_text(&line, " ");
        add_text(&line, name);
        end_line(&line);
    }
}

/* "12 bytes into a block of 64 at 0x..." */
static void add_place(struct line *line, const char *address,
                      const struct ps_guard_record *record) {
    const char *block = record->block;
    const char *end = block + record->bytes;
    const char *where = " into";
    uintptr_t distance = (uintptr_t)(address - block);
    if (address < block) {
        where = " before";
        distance = (uintptr_t)(block - address);
    } else if (address >= end && address != block) {
        where = " after";
        distance = (uintptr_t)(address - end) + 1; /* the first byte after the block is 1 after */
    }
    add_text(line, ", ");
    add_number(line, distance, 10);
    add_text(line, distance == 1 ? " byte" : " bytes");
    add_text(line, where);
    add_text(line, " a block of ");
    add_number(line, record->bytes, 10);
    add_text(line, " at ");
    add_address(line, block);
}

static void write_report(const char *what, const void *address,
                         const struct ps_guard_record *record, uintptr_t instruction) {
    struct line line = {.length = 0};
    /* relaxed: in a race with another free of the block either state is right. */
    uint32_t state = ps_load_relaxed(&record->x_state);
    add_text(&line, "poolshim: ");
    add_text(&line, what);
    add_text(&line, " ");
    add_address(&line, address);
    if (state != PS_GUARD_UNUSED) {
        add_place(&line, address, record);
    }
    end_line(&line);
    if (state != PS_GUARD_UNUSED) {
        write_trace("allocated", &record->allocated);
    }
    if (state == PS_GUARD_FREED) {
        write_trace("freed", &record->freed);
    }
    struct ps_guard_trace here = {.thread = ps_os_thread_number()};
    here.count = (uint32_t)ps_guard_trace(here.sites, PS_GUARD_FRAMES, instruction);
    if (here.count == 0 && instruction != 0) {
        here.sites[here.count++] = instruction;
    }
    write_trace(instruction != 0 ? "touched" : "now called", &here);
}

/* Three texts one after the other, in WHAT_BYTES. */
static void join(char *out, const char *first, const char *second, const char *third) {
    const char *const parts[] = {first, second, third};
    size_t length = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (const char *at = parts[i]; *at != '\0' && length < WHAT_BYTES - 1; at++) {
            out[length++] = *at;
        }
    }
    out[length] = '\0';
}

PS_COLD PS_NORETURN void ps_guard_die(const char *call, const char *what, const void *address,
                                      const struct ps_guard_record *record) {
    char text[WHAT_BYTES];
    join(text, call, what, "");
    write_report(text, address, record, 0);
    ps_signals_abort();
}

/* "heap overflow (write) at" */
static void describe(char *text, const struct ps_fault *fault,
                     const struct ps_guard_record *record) {
    static const char *const accesses[] = {"", " (read)", " (write)"};
    uint32_t state = ps_load_acquire(&record->x_state); /* acquire: pairs with ps_guard_alloc */
    const char *what = "access beyond every block";
    if (state == PS_GUARD_FREED) {
        what = "use after free";
    } else if (state == PS_GUARD_LIVE) {
        what = fault->address < record->block ? "heap underflow" : "heap overflow";
    }
    join(text, what, accesses[fault->access], " at");
}

/* Returns true when the calling thread is to report; otherwise blocks until the other thread's
 * report ends. */
static bool begin_report(void) {
    uint32_t reporter = 0;
    /* acquire: relaxed is enough; the winner only writes. */
    if (ps_cas_strong_acquire(&x_reporter, &reporter, ps_lock_self())) {
        return true;
    }
    while (reporter != DONE && reporter != ps_lock_self()) { /* ends with the report */
        ps_cpu_relax();
        reporter = ps_load_relaxed(&x_reporter); /* relaxed: nothing is read after it */
    }
    return false;
}

bool ps_guard_claim(const struct ps_fault *fault) {
    size_t offset = (size_t)(fault->address - ps_guard_pool.base);
    if (offset >= ps_guard_pool.slots * ps_guard_slot_bytes()) {
        return false;
    }
    if (begin_report()) {
        const struct ps_guard_record *record = ps_guard_record_of(fault->address);
        char what[WHAT_BYTES];
        describe(what, fault, record);
        write_report(what, fault->address, record, fault->instruction);
        ps_store_relaxed(&x_reporter, DONE); /* relaxed: nothing is read after it */
    }
    return true;
}
