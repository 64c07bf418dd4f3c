// expect: exit 0
// marks: fork slow
// lib: early_handlers.c early_user.c
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * A storm of forks while eight threads are inside of libc, each under another of its locks, and
 * allocate there: streams, character sets, host names, libraries, locales, time zones, exit
 * handlers, and a library whose fork handlers are older than the allocator's. Other handlers, that
 * are younger, allocate too. FORK_STORM_FORKS: how many forks.
 */
#include "claim.h"
#include "preload_order.h"

#include <dlfcn.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#define FORKS 400
#define BLOCK_BYTES 150000
#define EXIT_HANDLERS 2000 /* each takes memory that is never returned */

static volatile int is_over;
static void (*early_work)(void);
static char library[4096];

static void *wait_a_little(void) {
    usleep(50); /* all eight at once would leave no processor to the one that forks */
    return NULL;
}

static void flush_streams(void) { CLAIM(fflush(NULL) == 0); }

static void read_line(void) {
    static char text[BLOCK_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\n';
    FILE *stream = fmemopen(text, sizeof text, "r");
    CLAIM(stream != NULL);
    char *line = NULL;
    size_t room = 0;
    CLAIM(getline(&line, &room, stream) == BLOCK_BYTES);
    free(line);
    CLAIM(fclose(stream) == 0);
}

static void convert(void) {
    static const char *const names[] = {"UTF-16", "ISO-8859-15", "UTF-7", "KOI8-R"};
    static unsigned turn;
    iconv_t converter = iconv_open("UTF-8", names[turn++ % 4]);
    if (converter != (iconv_t)-1) { /* a small system has few */
        CLAIM(iconv_close(converter) == 0);
    }
}

static void resolve(void) {
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = AI_NUMERICSERV};
    if (getaddrinfo("localhost", "80", &hints, &found) == 0) {
        freeaddrinfo(found);
    }
}

static void load_library(void) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CLAIM(handle != NULL);
    CLAIM(dlclose(handle) == 0);
}

static void change_locale(void) {
    locale_t made = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    if (made != (locale_t)0) {
        freelocale(made);
    }
    CLAIM(setlocale(LC_ALL, "C") != NULL);
}

static void change_time_zone(void) {
    static unsigned turn;
    time_t now = time(NULL);
    struct tm parts;
    CLAIM(setenv("TZ", turn++ % 2 == 0 ? "EST5EDT,M3.2.0,M11.1.0" : "UTC0", 1) == 0);
    CLAIM(localtime_r(&now, &parts) != NULL);
    tzset();
}

static void nothing(void) {}

static void register_exit_handler(void) {
    static unsigned turn;
    if (turn++ < EXIT_HANDLERS) {
        CLAIM(atexit(nothing) == 0);
    }
    early_work();
}

static void (*const work[])(void) = {
    flush_streams, read_line,     convert,          resolve,
    load_library,  change_locale, change_time_zone, register_exit_handler};

#define WORKERS (sizeof work / sizeof work[0])

static void *run(void *argument) {
    void (*const *own)(void) = argument;
    while (!is_over) {
        (*own)();
        free(claim_hide(malloc(BLOCK_BYTES)));
        wait_a_little();
    }
    return NULL;
}

static void allocate(void) {
    for (size_t bytes = 16; bytes < 3 * BLOCK_BYTES; bytes *= 3) {
        free(claim_hide(malloc(bytes)));
    }
}

int main(int count, char **arguments) {
    (void)count;
    preload_order_restart(arguments, "early_handlers", PRELOAD_ORDER_AFTER);
    early_work = (void (*)(void))dlsym(RTLD_DEFAULT, "early_handlers_work");
    CLAIM(early_work != NULL);
    claim_library_path(library, sizeof library, "early_user");
    CLAIM(pthread_atfork(allocate, allocate, allocate) == 0);
    const char *wanted = getenv("FORK_STORM_FORKS");
    int forks = wanted != NULL ? atoi(wanted) : FORKS;
    pthread_t threads[WORKERS];
    for (size_t i = 0; i < WORKERS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, run, (void *)&work[i]) == 0);
    }
    for (int i = 0; i < forks; i++) {
        slowness_alarm(30); /* no fork takes as long */
        pid_t child = fork();
        CLAIM(child >= 0);
        if (child == 0) {
            slowness_alarm(30);
            allocate();
            early_work();
            _exit(0);
        }
        int status = 0;
        CLAIM(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (size_t i = 0; i < WORKERS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    printf("forks: %d\n", forks);
    return 0;
}
