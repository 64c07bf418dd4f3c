/* SPDX-License-Identifier: MIT */
/*
 * Makes system calls of a library fail while a program runs, again and again, a later call each
 * time, and says whether the program's claims are true.
 *
 *     inject --preload LIB --call mmap --nth 1-500 --errno ENOMEM [options] -- PROGRAM
 * [ARGUMENT...]
 *
 *     --preload LIB    LD_PRELOAD of the program
 *     --from TEXT      only calls made by code of files with TEXT in their path
 *     --call A,B       mmap, munmap, madvise, mremap, mprotect, mincore, brk, fallocate, mbind
 *     --nth A[-B[:S]]  the call that fails: from the Ath to the Bth, every Sth of them
 *     --errno NAME     ENOMEM (unless given), EINVAL, EAGAIN, EPERM, ENOSYS, EACCES
 *     --count K        K calls in a row fail; --from-then-on: all that follow
 *     --armed          calls count from the program's own mark on (marker.h), not from its start
 *     --start-may-fail a program that ld.so cannot start (status 127) is no failure
 *     --least N        so many runs must have met their fault
 *     --rss-most K, --addresses-most K: KiB more than without faults, at the program's end
 *     --seconds S      a program that takes longer hangs (30)
 *
 * The first run has no fault. A run fails when the program does not exit with 0 or prints a line of
 * poolshim's. Stops early when calls have run out. Exit 0, 1 (a run failed), 2 (usage), 77 (this
 * system has no seccomp user notification).
 */
#include "supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MISSES_MAX 3 /* runs in a row that made too few calls: threads differ a little */
#define REPORTS_MAX 5

struct word {
    const char *name;
    int number;
};

static const struct word call_words[] = {
    {"mmap", SYS_mmap},         {"munmap", SYS_munmap},
    {"madvise", SYS_madvise},   {"mremap", SYS_mremap},
    {"mprotect", SYS_mprotect}, {"mincore", SYS_mincore},
    {"brk", SYS_brk},           {"fallocate", SYS_fallocate},
    {"mbind", SYS_mbind},       {NULL, 0},
};

static const struct word error_words[] = {
    {"ENOMEM", ENOMEM}, {"EINVAL", EINVAL}, {"EAGAIN", EAGAIN}, {"EPERM", EPERM},
    {"ENOSYS", ENOSYS}, {"EACCES", EACCES}, {NULL, 0},
};

struct sweep {
    struct plan plan;
    uint64_t first;
    uint64_t last;
    uint64_t step;
    uint64_t least;
    uint64_t rss_most_kib;
    uint64_t addresses_most_kib;
    bool can_start_fail;
    const char *calls_text;
    const char *error_text;
    char **command;
};

struct tally {
    uint64_t runs;
    uint64_t reached; /* runs that met their fault */
    uint64_t injected;
    uint64_t refused;   /* calls that the program says were answered with NULL */
    uint64_t unstarted; /* programs that ld.so could not start */
    uint64_t failures;
    uint64_t rss_kib; /* the most that a run had at its end, and the most addresses */
    uint64_t va_kib;
};

static void usage(const char *problem) {
    fprintf(stderr, "inject: %s; the first comment of inject.c says what there is\n", problem);
    exit(2);
}

static int number_of(const struct word *words, const char *name, size_t length) {
    for (; words->name != NULL; words++) {
        if (strlen(words->name) == length && memcmp(words->name, name, length) == 0) {
            return words->number;
        }
    }
    usage(name);
    return 0;
}

static void parse_calls(struct plan *plan, const char *text) {
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        if (plan->call_count == PLAN_CALLS_LIMIT) {
            usage("too many calls");
        }
        plan->calls[plan->call_count++] = number_of(call_words, text, length);
        text += length + (text[length] == ',');
    }
}

static void parse_range(struct sweep *sweep, const char *text) {
    char *end;
    sweep->first = strtoull(text, &end, 10);
    sweep->last = *end == '-' ? strtoull(end + 1, &end, 10) : sweep->first;
    sweep->step = *end == ':' ? strtoull(end + 1, &end, 10) : 1;
    if (*end != '\0' || sweep->step == 0 || sweep->last < sweep->first) {
        usage("--nth A[-B[:S]]");
    }
}

/* An option with a value. */
static void parse_valued(struct sweep *sweep, const char *name, const char *value) {
    struct plan *plan = &sweep->plan;
    if (strcmp(name, "--preload") == 0) {
        plan->preload = value;
    } else if (strcmp(name, "--from") == 0) {
        plan->from = value;
    } else if (strcmp(name, "--call") == 0) {
        sweep->calls_text = value;
        parse_calls(plan, value);
    } else if (strcmp(name, "--nth") == 0) {
        parse_range(sweep, value);
    } else if (strcmp(name, "--errno") == 0) {
        sweep->error_text = value;
        plan->error = number_of(error_words, value, strlen(value));
    } else if (strcmp(name, "--count") == 0) {
        plan->count = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--least") == 0) {
        sweep->least = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--rss-most") == 0) {
        sweep->rss_most_kib = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--addresses-most") == 0) {
        sweep->addresses_most_kib = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--seconds") == 0) {
        plan->seconds = atoi(value);
    } else {
        usage(name);
    }
}

static void parse(struct sweep *sweep, char **arguments) {
    for (arguments++; *arguments != NULL && strcmp(*arguments, "--") != 0; arguments++) {
        if (strcmp(*arguments, "--from-then-on") == 0) {
            sweep->plan.count = UINT64_MAX;
        } else if (strcmp(*arguments, "--armed") == 0) {
            sweep->plan.is_armed = true;
        } else if (strcmp(*arguments, "--start-may-fail") == 0) {
            sweep->can_start_fail = true;
        } else if (arguments[1] != NULL) {
            parse_valued(sweep, arguments[0], arguments[1]);
            arguments++;
        } else {
            usage(*arguments);
        }
    }
    if (*arguments == NULL || arguments[1] == NULL || sweep->plan.call_count == 0) {
        usage("--call and a program are needed");
    }
    sweep->command = arguments + 1;
}

/* The number after a word that the program printed, 0 without it. */
static uint64_t figure(const struct outcome *outcome, const char *word) {
    const char *place = strstr(outcome->output, word);
    return place == NULL ? 0 : strtoull(place + strlen(word), NULL, 10);
}

static void report(const struct outcome *outcome, uint64_t nth, const struct sweep *sweep) {
    printf("FAIL %s %s at call %llu (%llu faults): ", sweep->calls_text, sweep->error_text,
           (unsigned long long)nth, (unsigned long long)outcome->injected);
    if (outcome->is_hanging) {
        printf("hangs");
    } else if (WIFSIGNALED(outcome->status)) {
        printf("signal %d", WTERMSIG(outcome->status));
    } else {
        printf("status %d", WEXITSTATUS(outcome->status));
    }
    printf("\n%s", outcome->output);
}

static void judge(struct tally *tally, const struct outcome *outcome, uint64_t nth,
                  const struct sweep *sweep) {
    bool is_exit = !outcome->is_hanging && WIFEXITED(outcome->status);
    bool is_silent = strstr(outcome->output, "poolshim:") == NULL;
    bool is_unstarted = is_exit && WEXITSTATUS(outcome->status) == 127 && sweep->can_start_fail;
    tally->runs += nth != 0;
    tally->reached += outcome->injected != 0;
    tally->injected += outcome->injected;
    tally->refused += figure(outcome, "refused ");
    tally->unstarted += is_unstarted;
    uint64_t rss_kib = figure(outcome, "rss_kib ");
    uint64_t va_kib = figure(outcome, "va_kib ");
    tally->rss_kib = rss_kib > tally->rss_kib ? rss_kib : tally->rss_kib;
    tally->va_kib = va_kib > tally->va_kib ? va_kib : tally->va_kib;
    if (!(is_unstarted || (is_exit && WEXITSTATUS(outcome->status) == 0)) || !is_silent) {
        if (tally->failures++ < REPORTS_MAX) {
            report(outcome, nth, sweep);
        }
    }
}

static bool run_once(struct sweep *sweep, uint64_t nth, struct outcome *outcome) {
    const char *why;
    sweep->plan.nth = nth;
    if (supervise(&sweep->plan, sweep->command, outcome, &why)) {
        return true;
    }
    printf("skipped: %s\n", why);
    return false;
}

/* What the runs came to, against the one without faults. */
static void conclude(struct tally *tally, const struct tally *base, const struct sweep *sweep) {
    uint64_t rss_kib = tally->rss_kib - base->rss_kib;
    uint64_t addresses_kib = tally->va_kib - base->va_kib;
    if (tally->reached < sweep->least) {
        printf("FAIL fewer than %llu runs met a fault\n", (unsigned long long)sweep->least);
        tally->failures++;
    }
    if (rss_kib > sweep->rss_most_kib || addresses_kib > sweep->addresses_most_kib) {
        printf("FAIL memory or addresses were lost\n");
        tally->failures++;
    }
    printf("%s %s: runs %llu, met their fault %llu, faults %llu, refused %llu, unstarted %llu, "
           "rss +%llu KiB, addresses +%llu KiB, failures %llu\n",
           sweep->calls_text, sweep->error_text, (unsigned long long)tally->runs,
           (unsigned long long)tally->reached, (unsigned long long)tally->injected,
           (unsigned long long)tally->refused, (unsigned long long)tally->unstarted,
           (unsigned long long)rss_kib, (unsigned long long)addresses_kib,
           (unsigned long long)tally->failures);
}

int main(int count, char **arguments) {
    (void)count;
    static struct outcome outcome;
    struct sweep sweep = {.plan = {.count = 1, .error = ENOMEM, .seconds = 30},
                          .step = 1,
                          .rss_most_kib = UINT64_MAX,
                          .addresses_most_kib = UINT64_MAX,
                          .error_text = "ENOMEM"};
    struct tally tally = {.runs = 0};
    parse(&sweep, arguments);
    if (!run_once(&sweep, 0, &outcome)) {
        return 77;
    }
    judge(&tally, &outcome, 0, &sweep);
    struct tally base = tally;
    uint64_t misses = 0;
    for (uint64_t nth = sweep.first; nth <= sweep.last && nth != 0 && misses < MISSES_MAX;
         nth += sweep.step) {
        if (!run_once(&sweep, nth, &outcome)) {
            return 77;
        }
        judge(&tally, &outcome, nth, &sweep);
        misses = outcome.injected == 0 ? misses + 1 : 0;
    }
    conclude(&tally, &base, &sweep);
    return tally.failures == 0 ? 0 : 1;
}
