/* SPDX-License-Identifier: MIT */
/*
 * See flight.h. Work on the file is done by one thread at a time, whose process is in x_worker;
 * another thread leaves its work to that one, which checks for it at the end. In the child of a
 * fork the word may name the parent, whose thread does not exist there. The sums of stacks are
 * copied elsewhere, under the lock of the engine's table (ps_profile_changed).
 *
 * The child of a fork shares the mapping of its parent's file, and must not write there: x_owner is
 * the process that may. A child that shares its parent's memory, as of vfork, has no file.
 */
#include "shim/flight.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/profile/table.h"
#include "shim/config.h"
#include "shim/exit_output.h"
#include "shim/flight_record.h"
#include "shim/flight_sites.h"
#include "shim/flight_store.h"
#include "shim/process_turn.h"
#include "shim/text.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define FILE_BYTES ((size_t)512 << 10)
#define LINE_BYTES 1024
#define POINT_MS 1000         /* between two points of growth */
#define POINT_BYTES PS_MIB(4) /* of live memory more, or an eighth, for a point before that */
#define TOUCH_POINTS 32       /* after which the file is marked as changed */

/* Everything but the file, in zeroed memory of its own. */
struct state {
    struct ps_flight_record record;
    uint64_t points; /* entered */
    char name[PS_FLIGHT_NAME_BYTES];
    struct ps_flight_tables tables;
};

static struct state *state; /* NULL: there is no record. Written by the constructor */

/* All relaxed, except where said: only the process that they name acts on them. */
static uint32_t x_owner;    /* of the file; 0: there is none yet */
static uint32_t x_worker;   /* 0: none */
static uint32_t x_is_child; /* of a fork, and has no file of its own */
static uint32_t x_has_mark; /* x_mark is to be reported */
static uint32_t x_has_failed;
static uint64_t x_next_point_ms;    /* by the engine's clock */
static uint64_t x_next_point_bytes; /* live memory at which a point is due before */
static struct ps_limit_mark x_mark;

static const char *directory(void) { return ps_shim_settings()->flight_path; }

/* Enters a point of growth. */
static void enter_point(const char *word, bool is_due) {
    uint64_t live_bytes = ps_table_live_bytes();
    ps_flight_record_point(&state->record, word, is_due);
    if (++state->points % TOUCH_POINTS == 0) {
        ps_flight_touch(directory(), state->name);
    }
    ps_store_relaxed(&x_next_point_ms, ps_os_now_ms() + POINT_MS);
    ps_store_relaxed(&x_next_point_bytes, live_bytes + ps_max(live_bytes / 8, POINT_BYTES));
}

/* ---- the mark ---- */

static void report_mark(void) {
    char buffer[LINE_BYTES];
    struct ps_text text;
    const struct ps_limit_mark mark = x_mark;
    ps_flight_record_mark(&state->record, &mark);
    int fd = ps_exit_output_stderr();
    if (fd < 0) {
        return;
    }
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard);
    ps_text_start(&text, buffer, sizeof buffer, fd);
    ps_text_add(&text, "poolshim: ");
    ps_flight_add_usage(&text, &mark);
    ps_text_add(&text, "; ");
    ps_text_add_rounded_size(&text, ps_table_live_bytes(), 0);
    ps_text_add(&text, " live, most from ");
    ps_flight_add_heaviest(&text, &state->tables);
    ps_text_add(&text, "; flight record ");
    ps_text_add_path(&text, state->name);
    ps_text_add(&text, "\n");
    ps_text_flush(&text);
    ps_signal_guard_leave(&guard);
}

/* ---- turns ---- */

static void fail(int error) {
    if (ps_load_relaxed(&x_has_failed) == 0) {
        ps_store_relaxed(&x_has_failed, 1u);
        ps_exit_output_unwritten("POOLSHIM_FLIGHT", directory(), error);
    }
}

/* Makes the file of this process. In the child of a fork it replaces the parent's. */
static void make_file(uint32_t process) {
    if (state->record.file.memory != NULL) {
        ps_flight_forget_stacks();
        (void)ps_syscall3(SYS_munmap, (long)state->record.file.memory,
                          (long)state->record.file.bytes, 0);
        /* The rest is entered before it is read, and may never have been touched. */
        memset(state, 0, offsetof(struct state, tables.ranges));
    }
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard); /* a limit on the size of files raises one */
    long memory = ps_flight_make(directory(), state->name, FILE_BYTES);
    ps_signal_guard_leave(&guard);
    if (ps_syscall_failed(memory)) {
        fail((int)-memory);
        return;
    }
    ps_flight_record_begin(&state->record, (unsigned char *)memory, FILE_BYTES);
    ps_flight_publish(directory(), state->name);
    ps_store_relaxed(&x_is_child, 0u);
    ps_store_release(&x_owner, process); /* release: the file is ready */
}

/* True if this process may have a file: it has one, or none yet. */
static bool may_work(uint32_t process) {
    uint32_t owner = ps_load_relaxed(&x_owner);
    return ps_load_relaxed(&x_has_failed) == 0 &&
           (owner == process || owner == 0 || ps_load_relaxed(&x_is_child) != 0);
}

static bool is_point_due(void) {
    return ps_os_now_ms() >= ps_load_relaxed(&x_next_point_ms) ||
           ps_table_live_bytes() >= ps_load_relaxed(&x_next_point_bytes);
}

static bool is_work_left(void) {
    return ps_flight_has_new(&state->tables) || ps_load_acquire(&x_has_mark) != 0;
}

static void work(uint32_t process, const char *word) {
    if (ps_load_relaxed(&x_owner) != process) {
        make_file(process);
    }
    if (ps_load_relaxed(&x_owner) != process) {
        return;
    }
    ps_flight_enter_stacks(&state->record.file, &state->tables);
    bool has_mark = ps_exchange_acquire(&x_has_mark, 0u) != 0; /* acquire: x_mark is complete */
    if (has_mark || word != NULL || is_point_due()) {
        enter_point(word != NULL ? word : "running", has_mark);
    }
    if (has_mark) {
        report_mark();
    }
}

/* Works on the file until no thread has left anything to do; not if another thread works. */
static void work_in_turn(void) {
    uint32_t process = ps_process_id();
    int saved_errno = errno;
    for (int i = 0; i < 2 && may_work(process) && ps_process_turn_begin(&x_worker); i++) {
        work(process, NULL);
        ps_process_turn_end(&x_worker);
        if (!is_work_left()) {
            break;
        }
    }
    errno = saved_errno;
}

/* ---- hooks ---- */

void ps_flight_sampled(void) {
    if (state != NULL &&
        (ps_load_relaxed(&x_owner) != ps_process_id() || is_work_left() || is_point_due())) {
        work_in_turn();
    }
}

void ps_flight_tick(void) {
    if (state != NULL && ps_load_relaxed(&x_owner) == ps_process_id() && is_point_due()) {
        work_in_turn();
    }
}

void ps_limit_reached(const struct ps_limit_mark *mark) {
    if (state == NULL || ps_load_relaxed(&x_has_mark) != 0) {
        return;
    }
    x_mark = *mark;
    ps_store_release(&x_has_mark, 1u); /* release: after x_mark */
    work_in_turn();
}

void ps_profile_changed(const struct ps_profile_stack *stack) {
    /* acquire: pairs with make_file. */
    if (ps_load_acquire(&x_owner) == ps_process_id()) {
        ps_flight_copy_sums(&state->record.file, stack);
    }
}

static void flight_child(void) { ps_store_relaxed(&x_is_child, 1u); } /* relaxed: one thread */

/* ---- start and end ---- */

PS_AT_START void ps_flight_at_start(void) {
    if (!ps_shim_settings()->engine.flight) {
        return;
    }
    int saved_errno = errno;
    ps_exit_output_start();
    long error = ps_flight_check(directory());
    struct state *memory =
        error == 0 ? ps_os_reserve(ps_round_up(sizeof *memory, PS_MIB(1)), ps_os_page_bytes())
                   : NULL;
    if ((ps_demand_now() & PS_DEMAND_FLIGHT) == 0 || memory == NULL) {
        fail(error != 0 ? (int)-error : ENOMEM);
    } else {
        (void)pthread_atfork(NULL, NULL, flight_child);
        state = memory;
    }
    errno = saved_errno;
}

PS_AT_START void ps_flight_at_exit(void) {
    uint32_t process = ps_process_id();
    if (state == NULL || ps_load_relaxed(&x_owner) != process ||
        !ps_process_turn_begin(&x_worker)) {
        return;
    }
    int saved_errno = errno;
    work(process, "ended by exit");
    /* Threads that still run enter no more stacks: there is no room. */
    size_t bytes = ps_flight_file_end(&state->record.file);
    ps_flight_finish(directory(), state->name, bytes);
    errno = saved_errno;
}
