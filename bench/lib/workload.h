/* SPDX-License-Identifier: MIT */
/*
 * What the workload programs share beyond bench.h: options by table, timed rounds, the report,
 * random numbers, marked blocks. Included once, by bench/<name>.c. The report has the shape that
 * the harness reads: every option by its name, one object per round, total_ms, peak_rss_kib.
 * Only bench_malloc and friends call the allocator. Rounds belong to the main thread; no locks.
 */
#ifndef PS_BENCH_LIB_WORKLOAD_H
#define PS_BENCH_LIB_WORKLOAD_H

#include "lib/bench.h"

#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

enum { BENCH_ROUND_LIMIT = 64, BENCH_NOTE_LIMIT = 8, BENCH_OPTION_LIMIT = 16 };
enum { BENCH_SIZE_COUNT = 1024, BENCH_PAGE_BYTES = 4096 };

/* One number on the command line. A table ends with a row without a name. */
struct bench_option {
    const char *name;
    uint64_t *value; /* the default until the line is parsed */
    uint64_t min;
    uint64_t max;
    const char *help;
};

/* One of a few words on the command line. A table of them ends likewise. */
struct bench_choice {
    const char *name;
    uint64_t *value;          /* the place of the word in the list */
    const char *const *words; /* ends with NULL */
    const char *help;
};

struct bench_round {
    uint64_t start_ns;
    uint64_t start_cpu_ns;
    uint64_t ns;
    uint64_t cpu_ns; /* of all threads together */
    uint64_t operations;
    size_t note_count;
    struct {
        const char *name;
        double value;
    } notes[BENCH_NOTE_LIMIT];
};

static const char *bench_name;
static const struct bench_option *bench_options;
static bool bench_is_json;
static struct bench_round bench_rounds[BENCH_ROUND_LIMIT];
static size_t bench_round_count;

/* One line on stderr, exit status 1: the work was not done, or done wrong. Any thread. */
__attribute__((noreturn, cold, format(printf, 1, 2))) static inline void
bench_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", bench_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(BENCH_EXIT_WRONG);
}

/* ---- the command line ---- */

static inline void bench_print_help(const char *purpose, const struct bench_choice *choices) {
    printf("usage: %s [--option N]... [--json]\n\n%s\n", bench_name, purpose);
    for (const struct bench_choice *choice = choices; choice->name != NULL; choice++) {
        printf("  --%-12s ", choice->name);
        for (const char *const *word = choice->words; *word != NULL; word++) {
            printf("%s%s", word == choice->words ? "" : "|", *word);
        }
        printf(": %s (%s)\n", choice->help, choice->words[*choice->value]);
    }
    for (const struct bench_option *option = bench_options; option->name != NULL; option++) {
        printf("  --%-12s %s (%llu)\n", option->name, option->help,
               (unsigned long long)*option->value);
    }
    puts("  --json         one JSON object instead of lines");
}

static inline void bench_parse_choice(const struct bench_choice *choice, const char *text) {
    for (uint64_t i = 0; choice->words[i] != NULL; i++) {
        if (strcmp(text, choice->words[i]) == 0) {
            *choice->value = i;
            return;
        }
    }
    fprintf(stderr, "%s: \"%s\" is none of its words, see --help\n", choice->name, text);
    exit(BENCH_EXIT_USAGE);
}

/* Reads the command line into the tables' values; a mistake ends the program with status 2. */
static inline void bench_parse_with(const char *name, const char *purpose,
                                    const struct bench_option *options,
                                    const struct bench_choice *choices, int argc, char **argv) {
    static struct option table[BENCH_OPTION_LIMIT + 3];
    int count = 0;
    bench_name = name;
    bench_options = options;
    for (; options[count].name != NULL && count < BENCH_OPTION_LIMIT; count++) {
        table[count] = (struct option){options[count].name, required_argument, NULL, count};
    }
    int numbers = count;
    for (; choices[count - numbers].name != NULL && count < BENCH_OPTION_LIMIT; count++) {
        const char *choice = choices[count - numbers].name;
        table[count] = (struct option){choice, required_argument, NULL, count};
    }
    table[count] = (struct option){"json", no_argument, NULL, count};
    table[count + 1] = (struct option){"help", no_argument, NULL, count + 1};
    for (int found; (found = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (found == '?') {
            exit(BENCH_EXIT_USAGE);
        } else if (found == count) {
            bench_is_json = true;
        } else if (found == count + 1) {
            bench_print_help(purpose, choices);
            exit(0);
        } else if (found >= numbers) {
            bench_parse_choice(&choices[found - numbers], optarg);
        } else {
            const struct bench_option *option = &options[found];
            *option->value = bench_parse_number(option->name, optarg, option->min, option->max);
        }
    }
    if (optind != argc) {
        fprintf(stderr, "%s: unexpected argument \"%s\"\n", name, argv[optind]);
        exit(BENCH_EXIT_USAGE);
    }
}

/* The same for the many that take numbers only. */
static inline void bench_parse(const char *name, const char *purpose,
                               const struct bench_option *options, int argc, char **argv) {
    static const struct bench_choice none[] = {{0}};
    bench_parse_with(name, purpose, options, none, argc, argv);
}

/* ---- rounds and the report ---- */

static inline void bench_round_begin(void) {
    if (bench_round_count == BENCH_ROUND_LIMIT) {
        bench_fail("more than %d rounds", BENCH_ROUND_LIMIT);
    }
    struct bench_round *round = &bench_rounds[bench_round_count];
    round->start_cpu_ns = bench_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    round->start_ns = bench_now_ns();
}

static inline void bench_round_end(uint64_t operations) {
    struct bench_round *round = &bench_rounds[bench_round_count++];
    round->ns = bench_now_ns() - round->start_ns;
    round->cpu_ns = bench_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - round->start_cpu_ns;
    round->operations = operations;
}

/* One more figure of the round that ended last. */
static inline void bench_note(const char *name, double value) {
    struct bench_round *round = &bench_rounds[bench_round_count - 1];
    if (round->note_count < BENCH_NOTE_LIMIT) {
        round->notes[round->note_count].name = name;
        round->notes[round->note_count++].value = value;
    }
}

static inline void bench_print_round(const struct bench_round *round, bool is_first) {
    double ms = bench_ms(round->ns);
    double mops = bench_mops(round->operations, round->ns);
    if (bench_is_json) {
        printf("%s{\"ms\": %.4f, \"cpu_ms\": %.4f, \"operations\": %llu, \"mops\": %.3f",
               is_first ? "" : ", ", ms, bench_ms(round->cpu_ns),
               (unsigned long long)round->operations, mops);
    } else {
        printf("%10.2f ms %12.2f ns each", ms, ms * 1e6 / (double)round->operations);
    }
    for (size_t i = 0; i < round->note_count; i++) {
        printf(bench_is_json ? ", \"%s\": %.6g" : "   %s %.6g", round->notes[i].name,
               round->notes[i].value);
    }
    fputs(bench_is_json ? "}" : "\n", stdout);
}

/* Prints everything; returns main's exit status. */
static inline int bench_report(void) {
    uint64_t peak_kib = bench_peak_rss_kib();
    uint64_t total_ns = 0;
    printf(bench_is_json ? "{\"benchmark\": \"%s\"" : "%s", bench_name);
    for (const struct bench_option *option = bench_options; option->name != NULL; option++) {
        if (strcmp(option->name, "rounds") != 0) { /* the list below shows how many */
            printf(bench_is_json ? ", \"%s\": %llu" : " --%s %llu", option->name,
                   (unsigned long long)*option->value);
        }
    }
    fputs(bench_is_json ? ", \"rounds\": [" : "\n", stdout);
    for (size_t i = 0; i < bench_round_count; i++) {
        bench_print_round(&bench_rounds[i], i == 0);
        total_ns += bench_rounds[i].ns;
    }
    printf(bench_is_json ? "], \"total_ms\": %.4f, \"peak_rss_kib\": %llu}\n"
                         : "total %.2f ms, peak RSS %llu KiB\n",
           bench_ms(total_ns), (unsigned long long)peak_kib);
    return fflush(stdout) == 0 ? 0 : BENCH_EXIT_WRONG;
}

static inline uint64_t bench_rss_kib(void) {
    return bench_proc_number("/proc/self/status", "VmRSS:");
}

static inline uint64_t bench_dirty_kib(void) {
    return bench_proc_number("/proc/self/smaps_rollup", "Private_Dirty:");
}

/* ---- random numbers: xorshift64*, the same everywhere ---- */

static inline uint64_t bench_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

/* From 0 to below `limit` (which fits 32 bits), without a division. */
static inline uint64_t bench_random_below(uint64_t *state, uint64_t limit) {
    return (bench_random(state) >> 32) * limit >> 32;
}

/*
 * Fills a table with sizes from `min` to `max`, to be drawn from in the timed part. Log-uniform:
 * each doubling of the size is as likely as any other.
 */
static inline void bench_fill_sizes(uint32_t sizes[BENCH_SIZE_COUNT], uint64_t min, uint64_t max,
                                    bool is_log_uniform) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    uint64_t octaves = 1;
    while (is_log_uniform && min << octaves < max) {
        octaves++;
    }
    for (size_t i = 0; i < BENCH_SIZE_COUNT;) {
        uint64_t low = is_log_uniform ? min << bench_random_below(&state, octaves) : min;
        uint64_t size = low + bench_random_below(&state, is_log_uniform ? low : max - min + 1);
        if (size <= max) {
            sizes[i++] = (uint32_t)size;
        }
    }
}

/* ---- blocks ---- */

/*
 * A plain call of malloc. The empty asm makes the result opaque: without it a compiler may prove
 * that the memory is not used and drop the pair of malloc and free.
 */
static inline void *bench_malloc(size_t bytes) {
    void *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    if (__builtin_expect(block == NULL, 0)) {
        bench_fail("malloc(%zu) failed", bytes);
    }
    return block;
}

/* Writes `mark` into the first word and the last byte, and touches each page between. */
static inline void bench_mark(void *block, size_t bytes, uint64_t mark) {
    unsigned char *at = block;
    memcpy(at, &mark, sizeof(mark));
    for (size_t i = BENCH_PAGE_BYTES; i + 1 < bytes; i += BENCH_PAGE_BYTES) {
        at[i] = 1;
    }
    at[bytes - 1] = (unsigned char)(mark >> 56);
}

/* The block still contains what bench_mark wrote; blocks of 8 bytes or more. */
static inline void bench_check(const void *block, size_t bytes, uint64_t mark) {
    uint64_t found;
    memcpy(&found, block, sizeof(found));
    unsigned char last = ((const unsigned char *)block)[bytes - 1];
    if (__builtin_expect(found != mark || last != (unsigned char)(mark >> 56), 0)) {
        bench_fail("a block of %zu bytes was overwritten", bytes);
    }
}

/* Memory for the program's own tables: outside the heap under test, its pages touched already. */
static inline void *bench_table(size_t bytes) {
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) {
        bench_fail("mmap of %zu bytes: %s", bytes, strerror(errno));
    }
    return table;
}

#endif
