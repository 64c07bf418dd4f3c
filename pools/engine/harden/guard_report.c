/* SPDX-License-Identifier: MIT */
/*
 * Reports on guarded blocks, from calls and from the signal handler: see report.h.
 */
#include "pools/engine/harden/report.h"
#include "pools/engine/os/signals.h"

#define WHAT_BYTES 96

static void write_report(const char *what, const void *address,
                         const struct ps_guard_record *record, uintptr_t instruction) {
    struct ps_report line = {.length = 0};
    /* relaxed: in a race with another free of the block either state is right. */
    uint32_t state = ps_load_relaxed(&record->x_state);
    ps_report_add_text(&line, "poolshim: ");
    ps_report_add_text(&line, what);
    ps_report_add_text(&line, " ");
    ps_report_add_address(&line, address);
    if (state != PS_GUARD_UNUSED) {
        ps_report_add_place(&line, address, record->block, record->bytes);
    }
    ps_report_end_line(&line);
    if (state != PS_GUARD_UNUSED) {
        ps_report_write_trace("allocated", &record->allocated);
    }
    if (state == PS_GUARD_FREED) {
        ps_report_write_trace("freed", &record->freed);
    }
    ps_report_write_here(instruction);
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
    uint32_t state = ps_load_acquire(&record->x_state); /* acquire: pairs with ps_guard_alloc */
    const char *what = "access beyond every block";
    if (state == PS_GUARD_FREED) {
        what = "use after free";
    } else if (state == PS_GUARD_LIVE) {
        what = fault->address < record->block ? "heap underflow" : "heap overflow";
    }
    join(text, what, ps_report_access(fault), " at");
}

bool ps_guard_claim(const struct ps_fault *fault) {
    size_t offset = (size_t)(fault->address - ps_guard_pool.base);
    if (offset >= ps_guard_pool.slots * ps_guard_slot_bytes()) {
        return false;
    }
    if (ps_report_begin()) {
        const struct ps_guard_record *record = ps_guard_record_of(fault->address);
        char what[WHAT_BYTES];
        describe(what, fault, record);
        write_report(what, fault->address, record, fault->instruction);
        ps_report_done();
    }
    return true;
}
