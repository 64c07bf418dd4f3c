/* SPDX-License-Identifier: MIT */
/*
 * See background.h. Model: tests/models/background.c.
 */
#include "pools/engine/heap/background.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/signals.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/retention.h"

#include <errno.h>

/* Addresses; touched pages alone take memory. Frames are small; the stack also has libc's thread
 * descriptor, the program's thread-local variables and the frame of libc's own signals. */
#define STACK_BYTES ((size_t)64 << 10)

#define INTERVAL_MIN_MS 50
#define SLACK_MS 500     /* after the clock was last read: fronts become idle, and return blocks */
#define STAY_SILENCES 10 /* at most so many, for work that is left when it is alone */
#define BEGIN_MS_MAX 100 /* for which its start blocks until its first instructions */

/* ---- requests of other processes ---- */

/* In the data of the library, initialised and a page of its own: a process that is asked for
 * nothing and has one thread does not write there. */
struct ps_control ps_control_page = {
    .magic = PS_CONTROL_MAGIC, .version = PS_CONTROL_VERSION, .bytes = sizeof(struct ps_control)};

extern struct ps_control poolshim_control __attribute__((alias("ps_control_page")));

void ps_control_add(uint64_t bytes) {
    ps_add_relaxed(&ps_control_page.x_result_bytes, bytes); /* relaxed: see the next */
}

void ps_control_finish(uint32_t request, enum ps_control_result result) {
    ps_store_relaxed(&ps_control_page.x_result, (uint32_t)result); /* relaxed: see the next */
    /* release: a process that reads it reads the results, too. */
    ps_store_release(&ps_control_page.x_done, request);
}

/* ---- calls that read the clock ---- */

/* The phase of the thread's record: it decides which side may write it. */
enum phase {
    PHASE_NONE = 0,
    PHASE_BUSY,    /* a thread starts or ends it */
    PHASE_RUNNING, /* `thread` may be joined, this and the next */
    PHASE_ENDED,   /* by itself */
};

static uint32_t x_phase;      /* enum phase */
static uint32_t x_wakes;      /* what the thread sleeps on; changes when it is to run */
static uint32_t x_is_stopped; /* it is to end */
static uint32_t x_has_begun;  /* it has run */
static uint32_t x_threads;    /* begun and not ended; without the background thread */
static uint32_t x_cpus;       /* processors of the process; 0: not counted */
static uint32_t x_unseen;     /* created, and not begun */
static uint32_t x_starts;     /* calls of ps_background_start */
static pthread_t thread;      /* PHASE_BUSY */
static uint32_t *process;     /* 1 in the process that the thread is of; as above */
static ps_background_job *job;
static bool is_kept; /* it does not end by itself; constant once it runs */

static void wake(void) {
    /* seq_cst: a thread that still reads the old value has yet to compare it in ps_os_wait. */
    (void)ps_add_seq_cst(&x_wakes, 1u);
    ps_os_wake_one(&x_wakes);
}

PS_COLD void ps_background_note_slow(void) {
    uint32_t quiet = PS_BACKGROUND_QUIET;
    uint32_t asleep = PS_BACKGROUND_ASLEEP;
    /* seq_cst, both: one of the two, or the background thread's own swap, comes first; after a
     * failure of both it is ACTIVE, by another thread, or OFF. */
    if (!ps_cas_strong_seq_cst(&ps_control_page.x_background, &quiet,
                               (uint32_t)PS_BACKGROUND_ACTIVE) &&
        ps_cas_strong_seq_cst(&ps_control_page.x_background, &asleep,
                              (uint32_t)PS_BACKGROUND_ACTIVE)) {
        wake();
    }
}

/* ---- the thread ---- */

static bool is_stopped(void) {
    return ps_load_seq_cst(&x_is_stopped) != 0; /* seq_cst: as in ps_background_stop */
}

/* True if the program has more than one thread, or one is being started. */
static bool has_company(void) {
    /* seq_cst, both: as in ps_background_start. */
    return ps_load_seq_cst(&x_threads) > 1 || ps_load_seq_cst(&x_unseen) != 0;
}

/* True if one thread of the program is left, and none is being started: then this one ends for
 * good. The system is not asked for the number of threads: a program may have forbidden the calls
 * that tell it. */
static bool ends_alone(void) {
    uint32_t running = PHASE_RUNNING;
    uint32_t starts = ps_load_seq_cst(&x_starts); /* seq_cst, all: as in ps_background_start */
    if (is_kept || has_company() ||
        !ps_cas_strong_seq_cst(&x_phase, &running, (uint32_t)PHASE_ENDED)) {
        return false;
    }
    uint32_t ended = PHASE_ENDED;
    return ps_load_seq_cst(&x_starts) == starts ||
           !ps_cas_strong_seq_cst(&x_phase, &ended, (uint32_t)PHASE_RUNNING);
}

static void sleep_without_end(uint32_t wakes) {
    uint32_t *word = &ps_control_page.x_background;
    uint32_t quiet = PS_BACKGROUND_QUIET;
    /* seq_cst: see ps_background_note_slow. Fails if the clock was read since. */
    if (ps_cas_strong_seq_cst(word, &quiet, (uint32_t)PS_BACKGROUND_ASLEEP)) {
        ps_os_wait(&x_wakes, wakes);
    }
}

/* True if a thread has read the clock since the last call. */
static bool take_note(void) {
    /* seq_cst: see ps_background_note_slow. After ASLEEP there was none: a signal ended the sleep.
     */
    return ps_exchange_seq_cst(&ps_control_page.x_background, (uint32_t)PS_BACKGROUND_QUIET) ==
           PS_BACKGROUND_ACTIVE;
}

static void *run(void *unused) {
    (void)unused;
    uint64_t active_ms = ps_os_now_ms();     /* last time that there was anything */
    uint64_t others_ms = active_ms;          /* last time that there was more than one thread */
    uint64_t quiet_ms = active_ms;           /* or that work was left, in a silence, soon after */
    ps_front_thread.end = PS_FRONT_END_OVER; /* what libc allocates here comes from the store */
    ps_os_name_thread("poolshim");
    ps_store_relaxed(&x_has_begun, 1u); /* relaxed: nothing else is read for it */
    ps_os_wake_one(&x_has_begun);
    while (!is_stopped()) {
        /* seq_cst: read before all words whose writers change x_wakes afterwards. */
        uint32_t wakes = ps_load_seq_cst(&x_wakes);
        bool is_active = take_note();
        uint64_t delay_ms = ps_retention_usual_delay_ms();
        uint64_t interval_ms = ps_max(delay_ms / 4, INTERVAL_MIN_MS);
        uint64_t silence_ms = delay_ms + delay_ms / 2 + SLACK_MS;
        uint64_t now_ms = ps_os_now_ms();
        uint32_t more_ms = job(now_ms);
        active_ms = is_active || more_ms != 0 ? now_ms : active_ms;
        bool is_behind = more_ms != 0 && more_ms < INTERVAL_MIN_MS && !is_active;
        if (has_company()) {
            others_ms = now_ms;
            quiet_ms = now_ms;
        } else if (is_behind && now_ms - others_ms < STAY_SILENCES * silence_ms) {
            quiet_ms = now_ms;
        }
        if (now_ms - quiet_ms >= silence_ms) {
            quiet_ms = now_ms; /* a thread has just been created */
            if (ends_alone()) {
                /* relaxed: the next start joins first. */
                ps_store_relaxed(&ps_control_page.x_background, (uint32_t)PS_BACKGROUND_OFF);
                break;
            }
        }
        if (is_stopped()) {
            break;
        }
        bool is_ending = quiet_ms != now_ms && !is_kept; /* sleeping, it would never */
        if (now_ms - active_ms >= silence_ms && !is_ending) {
            sleep_without_end(wakes);
            active_ms = ps_os_now_ms();
            others_ms = active_ms;
            quiet_ms = active_ms;
        } else {
            ps_os_wait_ms(&x_wakes, wakes, more_ms != 0 ? more_ms : interval_ms);
        }
    }
    return NULL;
}

/* ---- its start and end ---- */

__attribute__((weak)) void ps_background_join(pthread_t ended) { (void)pthread_join(ended, NULL); }

/* PHASE_BUSY: notes the process. Without a word that tells it from its children it is taken for
 * each of them. */
static void note_process(void) {
    if (process == NULL) {
        process = ps_os_word_wiped_by_fork();
    }
    if (process != NULL) {
        ps_store_relaxed(process, 1u); /* relaxed: PHASE_BUSY */
    }
}

/* PHASE_BUSY: joins a background thread of this process. After a fork without handlers, the
 * parent's does not exist here. The calling thread is not cancelled here. */
static void join(void) {
    int state;
    if (process == NULL || ps_load_relaxed(process) != 0) { /* relaxed: PHASE_BUSY */
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        ps_background_join(thread);
        (void)pthread_setcancelstate(state, NULL);
    }
}

/*
 * Blocks, for a bounded time, until the new thread has made the system calls of its start: the
 * program may forbid them next.
 */
static void await_begin(void) {
    uint64_t limit_ms = ps_os_now_ms() + BEGIN_MS_MAX;
    /* relaxed: nothing is read for it. */
    while (ps_load_relaxed(&x_has_begun) == 0 && ps_os_now_ms() < limit_ms) {
        ps_os_wait_ms(&x_has_begun, 0, BEGIN_MS_MAX);
    }
}

/* All signals are the program's threads', except for those that libc needs. */
static int create_thread(ps_background_create *create, const pthread_attr_t *attributes) {
    uint64_t before = ps_signals_block(PS_SIGNALS_OF_PROGRAM);
    int error = create(&thread, attributes, run, NULL);
    ps_signals_set_blocked(before);
    return error;
}

static bool create_small_thread(ps_background_create *create) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        error = create_thread(create, &attributes);
        (void)pthread_attr_destroy(&attributes);
    }
    /* EINVAL: the program's thread-local variables need more. */
    return error == 0 || (error == EINVAL && create_thread(create, NULL) == 0);
}

void ps_background_keep(void) { is_kept = true; }

void ps_background_start(ps_background_create *create, ps_background_job *new_job) {
    uint32_t none = PHASE_NONE;
    uint32_t ended = PHASE_ENDED;
    int saved_errno = errno;
    /* relaxed: the calling thread's own is counted, if any. Otherwise no thread reports its end
     * (there are no keys left), and the background thread would outlive them all. */
    if (ps_load_relaxed(&x_threads) == 0) {
        return;
    }
    (void)ps_add_seq_cst(&x_starts, 1u); /* seq_cst: before x_phase is read, as ends_alone */
    if (ps_cas_strong_seq_cst(&x_phase, &ended, (uint32_t)PHASE_BUSY)) {
        join();
    } else if (!ps_cas_strong_seq_cst(&x_phase, &none, (uint32_t)PHASE_BUSY)) {
        return; /* it runs, or another thread is about it */
    }
    job = new_job;
    note_process();
    ps_lock_watch_forks(); /* a fork copies the process without this thread */
    /* relaxed, all: made visible by the creation of the thread. */
    ps_store_relaxed(&x_is_stopped, 0u);
    ps_store_relaxed(&x_has_begun, 0u);
    ps_store_relaxed(&ps_control_page.x_background, (uint32_t)PS_BACKGROUND_ACTIVE);
    bool is_running = create_small_thread(create);
    if (!is_running) {
        ps_store_relaxed(&ps_control_page.x_background,
                         (uint32_t)PS_BACKGROUND_OFF); /* relaxed: no one */
    }
    /* seq_cst: publishes `thread`, and as above. */
    ps_store_seq_cst(&x_phase, (uint32_t)(is_running ? PHASE_RUNNING : PHASE_NONE));
    if (is_running) {
        await_begin();
    }
    errno = saved_errno;
}

void ps_background_stop(void) {
    uint32_t running = PHASE_RUNNING;
    uint32_t ended = PHASE_ENDED;
    if (ps_cas_strong_seq_cst(&x_phase, &running, (uint32_t)PHASE_BUSY)) {
        ps_store_seq_cst(&x_is_stopped, 1u); /* seq_cst: before x_wakes changes, as in run */
        wake();
    } else if (!ps_cas_strong_seq_cst(&x_phase, &ended, (uint32_t)PHASE_BUSY)) {
        return;
    }
    join();
    ps_store_relaxed(&ps_control_page.x_background,
                     (uint32_t)PS_BACKGROUND_OFF);    /* relaxed: it has ended */
    ps_store_seq_cst(&x_phase, (uint32_t)PHASE_NONE); /* seq_cst: makes the end visible */
}

void ps_background_thread_created(void) {
    if (ps_load_relaxed(&x_cpus) == 0) { /* relaxed: several threads count the same */
        ps_background_count_cpus();
    }
    (void)ps_add_seq_cst(&x_unseen, 1u); /* seq_cst: as in ends_alone */
}

void ps_background_thread_seen(void) {
    uint32_t unseen = ps_load_relaxed(&x_unseen); /* relaxed: the swap checks it */
    while (unseen != 0 && !ps_cas_strong_seq_cst(&x_unseen, &unseen, unseen - 1)) {
    } /* ends: another thread has changed it */
}

uint32_t ps_background_threads(void) {
    return ps_load_relaxed(&x_threads); /* relaxed: a moment later it is another */
}

void ps_background_count_cpus(void) {
    uint32_t cpus = ps_os_cpus();
    ps_store_relaxed(&x_cpus, cpus); /* relaxed: a number */
    ps_medium_set_processors(cpus);
}

void ps_background_thread_begun(void) {
    (void)ps_add_seq_cst(&x_threads, 1u); /* seq_cst: as in ends_alone */
}

void ps_background_thread_ended(void) {
    uint32_t left = ps_add_seq_cst(&x_threads, (uint32_t)-1) - 1; /* seq_cst: as in ends_alone */
    if (left == 0) {
        ps_background_stop();
    } else if (left == 1) {
        ps_background_note_slow(); /* it may end */
    }
}

bool ps_background_may_end(void) { return !is_kept && !has_company(); }

void ps_background_fork_child(bool has_begun) {
    /* relaxed, all: one thread. */
    ps_store_relaxed(&ps_control_page.x_background, (uint32_t)PS_BACKGROUND_OFF);
    ps_store_relaxed(&x_phase, (uint32_t)PHASE_NONE);
    ps_store_relaxed(&x_threads, has_begun ? 1u : 0u);
    ps_store_relaxed(&x_unseen, 0u);
}
