/* SPDX-License-Identifier: MIT */
/*
 * See mimalloc.h: version, options, statistics, handlers, memory of the program. No locks.
 */
#include "shim/mimalloc.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/page/retention.h"
#include "shim/entry.h"
#include "shim/process.h"
#include "shim/stats.h"
#include "shim/tcmalloc.h"

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#define VERSION 209 /* 2.0.9, whose interface this is */
#define BUFFER_BYTES 1024
#define KIB ((size_t)1024)

typedef void output_function(const char *message, void *arg);
typedef void error_function(int error, void *arg);
typedef void deferred_function(bool force, unsigned long long heartbeat, void *arg);

/* A function of the program, and what it is called with. relaxed, all: as in mimalloc, a program
 * sets them before its threads begin. */
struct handler {
    void *x_function;
    void *x_arg;
};
static struct handler output;
static struct handler on_error;
static struct handler deferred;
static unsigned long long x_heartbeat;

static void set_handler(struct handler *handler, void *function, void *arg) {
    ps_store_relaxed(&handler->x_arg, arg);           /* relaxed: see above */
    ps_store_relaxed(&handler->x_function, function); /* relaxed: see above */
}

PS_COLD void ps_mi_fail(int errno_value, int error) {
    error_function *call = (error_function *)ps_load_relaxed(&on_error.x_function); /* see above */
    if (call != NULL) {
        call(error, ps_load_relaxed(&on_error.x_arg)); /* relaxed: see above */
    }
    errno = errno_value;
}

/* ---- handlers ---- */

void mi_register_output(output_function *function, void *arg);
void mi_register_error(error_function *function, void *arg);
void mi_register_deferred_free(deferred_function *function, void *arg);

PS_EXPORT void mi_register_output(output_function *function, void *arg) {
    set_handler(&output, (void *)function, arg);
}

PS_EXPORT void mi_register_error(error_function *function, void *arg) {
    set_handler(&on_error, (void *)function, arg);
}

/* Called by mi_collect. */
PS_EXPORT void mi_register_deferred_free(deferred_function *function, void *arg) {
    set_handler(&deferred, (void *)function, arg);
}

/* ---- statistics ---- */

void mi_stats_reset(void);
void mi_stats_merge(void);
void mi_stats_print(void *out);
void mi_stats_print_out(output_function *function, void *arg);
void mi_thread_stats_print_out(output_function *function, void *arg);
void mi_debug_show_arenas(void);

struct sink {
    output_function *function;
    void *arg;
};

static void write_part(void *context, const char *part) {
    const struct sink *sink = context;
    sink->function(part, sink->arg);
}

/* Begins a text for a function, the registered one, or stderr. */
static void begin(struct ps_text *text, char *buffer, struct sink *sink, output_function *function,
                  void *arg) {
    *sink = (struct sink){function, arg};
    if (function == NULL) {
        sink->function = (output_function *)ps_load_relaxed(&output.x_function); /* see above */
        sink->arg = ps_load_relaxed(&output.x_arg);                              /* relaxed */
    }
    if (sink->function != NULL) {
        ps_text_start_sink(text, buffer, BUFFER_BYTES, write_part, sink);
    } else {
        ps_text_start(text, buffer, BUFFER_BYTES, STDERR_FILENO);
    }
}

PS_EXPORT void mi_stats_print_out(output_function *function, void *arg) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    struct sink sink;
    struct ps_report report;
    begin(&text, buffer, &sink, function, arg);
    ps_report_take(&report);
    ps_report_print_table(&report, &text);
    (void)ps_text_flush(&text);
}

PS_EXPORT void mi_thread_stats_print_out(output_function *function, void *arg) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    struct sink sink;
    begin(&text, buffer, &sink, function, arg);
    ps_text_add(&text, "poolshim: the thread has ");
    ps_text_add_number(&text, ps_tcmalloc_thread_bytes());
    ps_text_add(&text, " bytes of free blocks for itself\n");
    (void)ps_text_flush(&text);
}

/* out: as mimalloc says, for programs of its first version, without effect. */
PS_EXPORT void mi_stats_print(void *out) {
    (void)out;
    mi_stats_print_out(NULL, NULL);
}

PS_EXPORT void mi_debug_show_arenas(void) { mi_stats_print_out(NULL, NULL); }

/* Counts are of the whole run, and of all threads at any time. */
PS_EXPORT void mi_stats_reset(void) {}
PS_EXPORT void mi_stats_merge(void) {}

void mi_process_info(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
                     size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *faults);

static size_t ms_of(const struct timeval *time) {
    return (size_t)time->tv_sec * 1000 + (size_t)time->tv_usec / 1000;
}

static void store(size_t *out, size_t value) {
    if (out != NULL) {
        *out = value;
    }
}

/* Any result may be NULL. The most that was committed is not known: it is at least the present. */
PS_EXPORT void mi_process_info(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
                               size_t *peak_rss, size_t *commit, size_t *peak_commit,
                               size_t *faults) {
    struct rusage usage = {.ru_maxrss = 0};
    struct ps_process_memory memory;
    struct ps_census census;
    struct ps_tcmalloc_figures figures;
    (void)ps_syscall3(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0);
    ps_process_memory_read(&memory, "/proc/self");
    ps_tcmalloc_read(&figures, &census);
    store(elapsed_ms, (size_t)(ps_os_now_ms() - ps_stats_start_ms()));
    store(user_ms, ms_of(&usage.ru_utime));
    store(system_ms, ms_of(&usage.ru_stime));
    store(rss, memory.resident_bytes);
    store(peak_rss, ps_max((size_t)usage.ru_maxrss * KIB, memory.resident_bytes));
    store(commit, figures.physical);
    store(peak_commit, ps_max((size_t)usage.ru_maxrss * KIB, figures.physical));
    store(faults, (size_t)usage.ru_majflt);
}

/* ---- state ---- */

int mi_version(void);
void mi_process_init(void);
void mi_thread_init(void);
void mi_thread_done(void);
bool mi_is_redirected(void);
void mi_collect(bool force);

PS_EXPORT int mi_version(void) { return VERSION; }

/* A thread begins at its first call. */
PS_EXPORT void mi_process_init(void) {}
PS_EXPORT void mi_thread_init(void) {}

PS_EXPORT void mi_thread_done(void) { ps_maintenance_flush(); }

/* It is true on Windows and macOS alone. */
PS_EXPORT bool mi_is_redirected(void) { return false; }

PS_EXPORT void mi_collect(bool force) {
    deferred_function *call = (deferred_function *)ps_load_relaxed(&deferred.x_function);
    if (call != NULL) { /* relaxed, all: see above */
        call(force, ps_add_relaxed(&x_heartbeat, 1ull) + 1, ps_load_relaxed(&deferred.x_arg));
    }
    if (force) {
        (void)ps_maintenance_trim(0);
    } else {
        ps_maintenance_flush();
        ps_maintenance_decay();
    }
}

/* ---- memory of the program, which this heap does not use ---- */

int mi_reserve_os_memory(size_t size, bool commit, bool allow_large);
int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive, int *id);
int mi_reserve_huge_os_pages(size_t pages, double max_seconds, size_t *reserved);
int mi_reserve_huge_os_pages_at(size_t pages, int node, size_t timeout_ms);
int mi_reserve_huge_os_pages_at_ex(size_t pages, int node, size_t timeout_ms, bool exclusive,
                                   int *id);
int mi_reserve_huge_os_pages_interleave(size_t pages, size_t nodes, size_t timeout_ms);
bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_large, bool is_zero,
                         int node);
bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed, bool is_large,
                            bool is_zero, int node, bool exclusive, int *id);
void *mi_arena_area(int id, size_t *size);

/* No arena has the number. */
static int refuse(int *id) {
    if (id != NULL) {
        *id = 0;
    }
    return ENOMEM;
}

PS_EXPORT int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) {
    (void)size, (void)commit, (void)allow_large;
    return refuse(NULL);
}

PS_EXPORT int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive,
                                      int *id) {
    (void)size, (void)commit, (void)allow_large, (void)exclusive;
    return refuse(id);
}

PS_EXPORT int mi_reserve_huge_os_pages(size_t pages, double max_seconds, size_t *reserved) {
    (void)pages, (void)max_seconds;
    store(reserved, 0);
    return refuse(NULL);
}

PS_EXPORT int mi_reserve_huge_os_pages_at(size_t pages, int node, size_t timeout_ms) {
    (void)pages, (void)node, (void)timeout_ms;
    return refuse(NULL);
}

PS_EXPORT int mi_reserve_huge_os_pages_at_ex(size_t pages, int node, size_t timeout_ms,
                                             bool exclusive, int *id) {
    (void)pages, (void)node, (void)timeout_ms, (void)exclusive;
    return refuse(id);
}

PS_EXPORT int mi_reserve_huge_os_pages_interleave(size_t pages, size_t nodes, size_t timeout_ms) {
    (void)nodes, (void)timeout_ms;
    return pages == 0 ? 0 : refuse(NULL);
}

PS_EXPORT bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_large,
                                   bool is_zero, int node) {
    (void)start, (void)size, (void)is_committed, (void)is_large, (void)is_zero, (void)node;
    return false;
}

PS_EXPORT bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed, bool is_large,
                                      bool is_zero, int node, bool exclusive, int *id) {
    (void)start, (void)size, (void)is_committed, (void)is_large, (void)is_zero, (void)node;
    (void)exclusive;
    return refuse(id) == 0;
}

PS_EXPORT void *mi_arena_area(int id, size_t *size) {
    (void)id;
    store(size, 0);
    return NULL;
}

/* ---- options ---- */

/* Numbers of mi_option_t. The options have the values that are set, or mimalloc's defaults. One has
 * an effect: the purge delay. */
enum { OPTION_DELAY = 15, OPTION_COUNT = 26 };

static long x_options[OPTION_COUNT] = {
    [3] = 1,               /* eager_commit */
    [12] = 0,              /* abandoned_page_decommit */
    [14] = 1,              /* eager_commit_delay */
    [18] = 100,            /* os_tag */
    [19] = 16,  [20] = 16, /* max_errors, max_warnings */
    [21] = 8,              /* max_segment_reclaim */
    [22] = 1,              /* allow_decommit */
    [23] = 500,            /* segment_decommit_delay */
    [24] = 1,              /* decommit_extend_delay */
};

bool mi_option_is_enabled(unsigned option);
void mi_option_enable(unsigned option);
void mi_option_disable(unsigned option);
void mi_option_set_enabled(unsigned option, bool enable);
void mi_option_set_enabled_default(unsigned option, bool enable);
long mi_option_get(unsigned option);
long mi_option_get_clamp(unsigned option, long least, long most);
void mi_option_set(unsigned option, long value);
void mi_option_set_default(unsigned option, long value);

PS_EXPORT long mi_option_get(unsigned option) {
    if (option == OPTION_DELAY) {
        uint32_t delay_ms = ps_retention_usual_delay_ms();
        return delay_ms == UINT32_MAX ? -1 : (long)delay_ms;
    }
    return option < OPTION_COUNT ? ps_load_relaxed(&x_options[option]) : 0; /* relaxed: by itself */
}

static uint32_t x_is_set; /* a bit for each option that the program has set */

static void set(unsigned option, long value) {
    if (option == OPTION_DELAY) {
        bool is_delay = value >= 0 && value < (long)UINT32_MAX;
        ps_retention_set_delay(is_delay ? (uint32_t)value : UINT32_MAX);
    } else if (option < OPTION_COUNT) {
        ps_store_relaxed(&x_options[option], value); /* relaxed: as above */
    }
}

PS_EXPORT void mi_option_set(unsigned option, long value) {
    if (option < OPTION_COUNT) {
        ps_or_relaxed(&x_is_set, UINT32_C(1) << option); /* relaxed: by itself */
    }
    set(option, value);
}

/* Does not change an option that was set. */
PS_EXPORT void mi_option_set_default(unsigned option, long value) {
    bool is_set = option < OPTION_COUNT && (ps_load_relaxed(&x_is_set) >> option & 1) != 0;
    if (!is_set) { /* relaxed: as above */
        set(option, value);
    }
}

PS_EXPORT long mi_option_get_clamp(unsigned option, long least, long most) {
    long value = mi_option_get(option);
    return value < least ? least : value > most ? most : value;
}

PS_EXPORT bool mi_option_is_enabled(unsigned option) { return mi_option_get(option) != 0; }
PS_EXPORT void mi_option_set_enabled(unsigned option, bool enable) {
    mi_option_set(option, enable);
}
PS_EXPORT void mi_option_enable(unsigned option) { mi_option_set(option, 1); }
PS_EXPORT void mi_option_disable(unsigned option) { mi_option_set(option, 0); }
PS_EXPORT void mi_option_set_enabled_default(unsigned option, bool enable) {
    mi_option_set_default(option, enable);
}
