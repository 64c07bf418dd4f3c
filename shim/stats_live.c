/* SPDX-License-Identifier: MIT */
/*
 * Statistics while the program runs: at a signal, every so often, and at a SIGTERM that ends it.
 * See stats.h.
 *
 * A handler may interrupt any instruction of the program, ours included, so the report is taken
 * without locks (ps_census_peek) and everything else is system calls. None of that is a point of
 * cancellation, at which the interrupted thread could end in the middle of malloc; while a handler
 * runs, the signals by which libc cancels at once are blocked too. The report and the buffer are
 * static: the interrupted thread may have little stack left. One report is written at a time; a
 * request for another meanwhile is dropped, since it would say the same. No locks.
 */
#include "shim/stats.h"

#include "pools/engine/heap/maintenance.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/signals.h"
#include "pools/engine/os/syscall.h"
#include "shim/config.h"
#include "shim/exit_output.h"
#include "shim/process_turn.h"

#include <errno.h>
#include <signal.h>

#define BUFFER_BYTES 1024
#define PAUSE_MS 1
#define PAUSES 1000
#define MS_PER_SECOND 1000

static uint32_t x_writer; /* id of the process that writes; a fork's child has another */
static uint32_t x_ending; /* likewise, of the process that a SIGTERM ends */
static PS_SPARSE struct ps_report report;
static PS_SPARSE char buffer[BUFFER_BYTES];

/* context: not NULL for JSON. */
static int write_report(int fd, const void *context) {
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, fd);
    if (context != NULL) {
        ps_report_print_json(&report, &text);
    } else {
        ps_report_print_table(&report, &text);
    }
    return ps_text_flush(&text) ? 0 : text.error;
}

static void write_to_target(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (settings->stats_target == PS_STATS_FILE) {
        const char *json = ps_stats_is_json(settings->stats_path) ? "json" : NULL;
        int error = ps_report_file_write(settings->stats_path, ps_exit_output_directory(),
                                         write_report, json);
        if (error != 0) {
            ps_exit_output_unwritten("POOLSHIM_STATS", settings->stats_path, error);
        }
        return;
    }
    int fd = ps_exit_output_stderr();
    if (fd >= 0) {
        (void)write_report(fd, NULL);
    }
}

/* now_ms: not 0 for a periodic report. */
static void write_now(uint64_t now_ms) {
    struct ps_signal_guard guard;
    if (ps_process_turn_begin(&x_writer)) {
        ps_signal_guard_enter(&guard);
        ps_report_peek(&report);
        if (now_ms != 0) {
            ps_report_set_base(&report, now_ms);
        }
        write_to_target();
        ps_signal_guard_leave(&guard);
        ps_process_turn_end(&x_writer);
    }
}

/* ---- signals ---- */

static void on_dump(int number) {
    (void)number;
    write_now(0);
}

/* Blocks until another thread has written its report, which the end of the process would cut. */
static void await_writer(void) {
    uint32_t self = ps_process_id();
    /* acquire: pairs with ps_process_turn_end. */
    for (int i = 0; i < PAUSES && ps_load_acquire(&x_writer) == self; i++) {
        ps_os_wait_ms(&x_writer, self, PAUSE_MS);
    }
}

/* The program would have ended by the signal, and does so. A second one meanwhile changes nothing.
 */
static void on_end(int number) {
    uint32_t self = ps_process_id();
    if (ps_exchange_acquire(&x_ending, self) == self) { /* acquire: one thread goes on */
        return;
    }
    await_writer();
    write_now(0);
    (void)ps_signals_set_action(number, (struct ps_signal_action){.handler = SIG_DFL});
    ps_signals_raise(number); /* delivered when this handler returns */
}

static void install(int number, void (*handler)(int), bool is_only_default) {
    struct ps_signal_action action;
    if (!ps_signals_action(number, &action) || (is_only_default && action.handler != SIG_DFL)) {
        return;
    }
    action = (struct ps_signal_action){
        .handler = handler, .flags = SA_RESTART, .blocked = PS_SIGNALS_ALL};
    (void)ps_signals_set_action(number, action);
}

static int number_of(enum ps_dump_signal name) {
    static const int numbers[] = {
        [PS_DUMP_OFF] = 0,        [PS_DUMP_HUP] = SIGHUP,   [PS_DUMP_QUIT] = SIGQUIT,
        [PS_DUMP_USR1] = SIGUSR1, [PS_DUMP_USR2] = SIGUSR2, [PS_DUMP_WINCH] = SIGWINCH,
    };
    return numbers[name];
}

/* ---- every so often ---- */

uint32_t ps_stats_tick(uint64_t now_ms) {
    uint64_t every_ms = (uint64_t)ps_shim_settings()->stats_every_s * MS_PER_SECOND;
    if (every_ms == 0) {
        return 0;
    }
    uint64_t due_ms = ps_load_relaxed(&ps_maintenance_x_report_ms); /* relaxed: as in begin */
    /* acquire: of several threads that find it due one reports. */
    if (now_ms >= due_ms &&
        ps_cas_strong_acquire(&ps_maintenance_x_report_ms, &due_ms, now_ms + every_ms)) {
        write_now(now_ms);
        due_ms = now_ms + every_ms;
    }
    return due_ms > now_ms ? (uint32_t)(due_ms - now_ms) : 1;
}

void ps_maintenance_report(uint64_t now_ms) {
    int saved_errno = errno;
    (void)ps_stats_tick(now_ms);
    errno = saved_errno;
}

PS_AT_START void ps_stats_live_start(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (settings->stats_target != PS_STATS_OFF) {
        install(SIGTERM, on_end, true);
    }
    if (settings->dump_signal != PS_DUMP_OFF) {
        install(number_of(settings->dump_signal), on_dump, false);
    }
    if (settings->stats_every_s != 0) {
        uint64_t every_ms = (uint64_t)settings->stats_every_s * MS_PER_SECOND;
        /* relaxed: the program has no threads yet. */
        ps_store_relaxed(&ps_maintenance_x_report_ms, ps_os_now_ms() + every_ms);
    }
}
