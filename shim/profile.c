/* SPDX-License-Identifier: MIT */
/*
 * See profile.h. No locks: one thread at a time writes while the program runs, and others do not
 * block on it.
 */
#include "shim/profile.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "shim/config.h"
#include "shim/exit_output.h"
#include "shim/flight.h"
#include "shim/process_turn.h"
#include "shim/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define PEAK_FIRST_SAMPLES 8 /* that are live at the first peak */
#define PEAK_GROWTH 20       /* a new peak is a twentieth above the last */
#define MS_PER_SECOND 1000
#define NUMBER_DIGITS 4
#define LAST_TRIES 100 /* of the turn at exit */
#define LAST_WAIT_MS 10

static uint32_t start_process; /* written by the constructor */

/* All relaxed: written by the thread that x_writer names, which is the only one that acts on them;
 * others see old values, and then do nothing or find a writer. */
static uint64_t x_peak_bytes; /* live memory beyond which a new peak is written */
static uint64_t x_due_ms;     /* of PROFILE_EVERY */
static uint32_t x_number;     /* of the last file */
static uint32_t x_has_peak;   /* a peak was written */
static uint32_t x_has_failed; /* a line on stderr has said so */
static uint32_t x_writer;     /* process of the thread that writes, 0: none */

static bool is_on(void) { return ps_demand_has_file(); }

/* The child of a fork has the parent's file, unless its name has the process id in it. */
static bool may_write(void) {
    return ps_process_id() == start_process ||
           ps_report_file_is_per_process(ps_shim_settings()->profile_path);
}

/* ---- files ---- */

/* True if the pattern has %n. With a text it is copied there, the number in its place. */
static bool number_pattern(const char *pattern, struct ps_text *out, uint32_t number) {
    bool has_number = false;
    for (; *pattern != '\0'; pattern++) {
        size_t length = pattern[0] == '%' && pattern[1] != '\0' ? 2 : 1;
        if (length == 2 && pattern[1] == 'n') {
            has_number = true;
            uint32_t lowest = 1;
            for (int digits = 1; digits < NUMBER_DIGITS && out != NULL; digits++) {
                lowest *= 10;
                if (number < lowest) {
                    ps_text_add(out, "0");
                }
            }
            if (out != NULL) {
                ps_text_add_number(out, number);
            }
        } else if (out != NULL) {
            ps_text_add_str(out, (struct ps_str){.data = pattern, .length = length});
        }
        pattern += length - 1;
    }
    return has_number;
}

static int write_guarded(const char *path, const char *directory) {
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard);
    int error = ps_report_file_write(path, directory, ps_pprof_write, NULL);
    ps_signal_guard_leave(&guard);
    return error;
}

/* Writes the file of POOLSHIM_PROFILE. */
static int write_own(void) {
    char path[PS_SETTING_PATH_BYTES + 2 * sizeof x_number];
    struct ps_text text;
    ps_text_start(&text, path, sizeof path - 1, PS_TEXT_TO_BUFFER);
    uint32_t number = ps_add_relaxed(&x_number, 1u) + 1; /* relaxed: a number of its own */
    (void)number_pattern(ps_shim_settings()->profile_path, &text, number);
    path[text.length] = '\0';
    return text.has_failed ? ENAMETOOLONG : write_guarded(path, ps_exit_output_directory());
}

int ps_profile_write_file(const char *pattern) {
    if (!is_on()) {
        return ENOTSUP;
    }
    return pattern != NULL ? write_guarded(pattern, NULL) : write_own();
}

/* ---- while the program runs ---- */

/* Takes the turn for good, at exit: a file that is being written would be left half-written. */
static void take_last_turn(void) {
    uint32_t own = ps_process_id();
    for (int i = 0; i < LAST_TRIES && !ps_process_turn_begin(&x_writer); i++) {
        ps_os_wait_ms(&x_writer, own, LAST_WAIT_MS);
    }
}

static void write_now(void) {
    int error = may_write() ? write_own() : 0;
    if (error != 0 && ps_load_relaxed(&x_has_failed) == 0) {
        ps_store_relaxed(&x_has_failed, 1u);
        ps_exit_output_unwritten("POOLSHIM_PROFILE", ps_shim_settings()->profile_path, error);
    }
}

/* Milliseconds until the next file of PROFILE_EVERY, which is written if it is due; 0: there is
 * none. */
uint32_t ps_profile_tick(uint64_t now_ms) {
    uint64_t every_ms = (uint64_t)ps_shim_settings()->profile_every_s * MS_PER_SECOND;
    if (every_ms == 0 || !is_on()) {
        return 0;
    }
    uint64_t due_ms = ps_load_relaxed(&x_due_ms);
    if (now_ms >= due_ms && ps_process_turn_begin(&x_writer)) {
        if (ps_load_relaxed(&x_due_ms) == due_ms) { /* else another thread has just written it */
            ps_store_relaxed(&x_due_ms, now_ms + every_ms);
            write_now();
        }
        ps_process_turn_end(&x_writer);
        due_ms = now_ms + every_ms;
    }
    return due_ms > now_ms ? (uint32_t)(due_ms - now_ms) : 1;
}

static void write_peak(uint64_t live_bytes) {
    uint64_t peak_bytes = ps_load_relaxed(&x_peak_bytes);
    if (live_bytes <= peak_bytes || !ps_process_turn_begin(&x_writer)) {
        return;
    }
    if (live_bytes > ps_load_relaxed(&x_peak_bytes)) {
        ps_store_relaxed(&x_peak_bytes, live_bytes + live_bytes / PEAK_GROWTH);
        ps_store_relaxed(&x_has_peak, 1u);
        write_now();
    }
    ps_process_turn_end(&x_writer);
}

void ps_profile_sampled(uint64_t live_bytes) {
    ps_flight_sampled();
    const struct ps_settings *settings = ps_shim_settings();
    if (PS_LIKELY(!settings->profile_peak && settings->profile_every_s == 0)) {
        return;
    }
    int saved_errno = errno;
    if (start_process == 0) {
        return; /* before the constructor */
    }
    if (settings->profile_peak) {
        write_peak(live_bytes);
    }
    if (settings->profile_every_s != 0) {
        (void)ps_profile_tick(ps_os_now_ms());
    }
    errno = saved_errno;
}

/* ---- start and end ---- */

PS_AT_START void ps_profile_at_start(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (!settings->engine.profile) {
        return;
    }
    ps_exit_output_start();
    if (!is_on()) {
        ps_exit_output_unwritten("POOLSHIM_PROFILE", settings->profile_path, ENOMEM);
        return;
    }
    /* relaxed, both: the program has no threads yet. */
    ps_store_relaxed(&x_peak_bytes,
                     PEAK_FIRST_SAMPLES * ps_load_relaxed(&ps_profile_settings.x_interval_bytes));
    ps_store_relaxed(&x_due_ms,
                     ps_os_now_ms() + (uint64_t)settings->profile_every_s * MS_PER_SECOND);
    start_process = ps_process_id();
}

PS_AT_START void ps_profile_at_exit(void) {
    if (!is_on()) {
        return;
    }
    const char *path = ps_shim_settings()->profile_path;
    int saved_errno = errno;
    take_last_turn();
    /* relaxed: written in an earlier turn. */
    bool is_peaks = ps_load_relaxed(&x_has_peak) != 0 && !number_pattern(path, NULL, 0);
    if (!is_peaks) {
        write_now();
    }
    errno = saved_errno;
}
