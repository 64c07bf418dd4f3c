/* SPDX-License-Identifier: MIT */
/*
 * See flight_store.h. No locks: names of two processes differ, and a file that another process
 * removes meanwhile is one less.
 */
#include "shim/flight_store.h"

#include "pools/engine/os/clock.h"
#include "pools/engine/os/files.h"
#include "shim/exit_output.h"
#include "shim/report_open.h"
#include "shim/text.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define PREFIX "poolshim-"
#define SUFFIX ".pb"
#define EXIT_SUFFIX "-exit.pb"
#define HIDDEN_BYTES (PS_FLIGHT_NAME_BYTES + 1)
#define LIST_BYTES 4096
#define REMOVALS_MOST 8 /* by one process, so that its start costs little */
#define DAY_SECONDS 86400

/* ---- names ---- */

static void add_digits(char *out, unsigned value, int digits) {
    for (int i = digits - 1; i >= 0; i--, value /= 10) {
        out[i] = (char)('0' + value % 10);
    }
}

/* The date: days since 1970-01-01 in the Gregorian calendar (Howard Hinnant's algorithm). */
void ps_flight_time(char out[PS_FLIGHT_TIME_BYTES], uint64_t seconds) {
    uint64_t days = seconds / DAY_SECONDS + 719468; /* since 0000-03-01 */
    unsigned rest = (unsigned)(seconds % DAY_SECONDS);
    uint64_t era = days / 146097;
    unsigned day_of_era = (unsigned)(days % 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted = (5 * day_of_year + 2) / 153; /* month, 0: March */
    unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
    unsigned year = (unsigned)(era * 400) + year_of_era + (month <= 2);
    add_digits(out, year, 4);
    add_digits(out + 4, month, 2);
    add_digits(out + 6, day_of_year - (153 * shifted + 2) / 5 + 1, 2);
    out[8] = 'T';
    add_digits(out + 9, rest / 3600, 2);
    add_digits(out + 11, rest / 60 % 60, 2);
    add_digits(out + 13, rest % 60, 2);
    out[15] = '\0';
}

static void make_name(char name[PS_FLIGHT_NAME_BYTES]) {
    char time[PS_FLIGHT_TIME_BYTES];
    struct timespec now;
    struct ps_text text;
    ps_clock_read(CLOCK_REALTIME, &now);
    ps_flight_time(time, (uint64_t)now.tv_sec);
    ps_text_start(&text, name, PS_FLIGHT_NAME_BYTES - 1, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, PREFIX);
    ps_text_add(&text, time);
    ps_text_add(&text, "-");
    ps_text_add_number(&text, (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0));
    ps_text_add(&text, SUFFIX);
    name[text.length] = '\0';
}

/* The name of the file until it is published. */
static void hide(char hidden[HIDDEN_BYTES], const char *name) {
    hidden[0] = '.';
    memcpy(hidden + 1, name, strlen(name) + 1);
}

static bool ends_in(const char *name, const char *suffix) {
    size_t length = strlen(name);
    size_t suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static int path_of(char *out, const char *directory, const char *name) {
    char pattern[PATH_MAX];
    struct ps_text text;
    ps_text_start(&text, pattern, sizeof pattern - 1, PS_TEXT_TO_BUFFER);
    for (const char *at = directory; *at != '\0'; at++) { /* a pattern without % sequences */
        ps_text_add_str(&text, (struct ps_str){.data = at, .length = 1});
        ps_text_add(&text, *at == '%' ? "%" : "");
    }
    ps_text_add(&text, "/");
    ps_text_add(&text, name);
    pattern[text.length] = '\0';
    return text.has_failed
               ? ENAMETOOLONG
               : ps_report_file_path(out, PATH_MAX, pattern, ps_exit_output_directory());
}

/* ---- files beyond the number ---- */

/* An entry of getdents64. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short bytes;
    unsigned char type;
    char name[];
};

struct listing {
    long directory;
    bool is_exit; /* the kind */
    size_t count;
    struct timespec oldest;
    char oldest_name[PS_FLIGHT_NAME_BYTES];
};

static bool is_before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void visit(struct listing *listing, const char *name) {
    struct stat status;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !ends_in(name, SUFFIX) ||
        ends_in(name, EXIT_SUFFIX) != listing->is_exit || strlen(name) >= PS_FLIGHT_NAME_BYTES ||
        ps_file_status_at((int)listing->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
        return;
    }
    if (listing->count++ == 0 || is_before(&status.st_mtim, &listing->oldest)) {
        listing->oldest = status.st_mtim;
        memcpy(listing->oldest_name, name, strlen(name) + 1);
    }
}

static void list(struct listing *listing) {
    _Alignas(struct entry) char buffer[LIST_BYTES];
    listing->count = 0;
    (void)ps_syscall3(SYS_lseek, listing->directory, 0, SEEK_SET);
    for (;;) { /* ends: at the end of the directory */
        long got = ps_syscall3(SYS_getdents64, listing->directory, (long)buffer, sizeof buffer);
        if (got <= 0) {
            return;
        }
        for (long at = 0; at < got;) { /* ends: entries have a length */
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            visit(listing, entry->name);
            at += entry->bytes;
        }
    }
}

static void remove_oldest(long directory, bool is_exit) {
    struct listing listing = {.directory = directory, .is_exit = is_exit};
    for (int i = 0; i < REMOVALS_MOST; i++) {
        list(&listing);
        if (listing.count < PS_FLIGHT_FILES) {
            return;
        }
        (void)ps_file_remove((int)directory, listing.oldest_name);
    }
}

/* ---- this process's ---- */

/* The open directory of a file, or an error as the kernel returns it. */
static long open_directory(const char *directory, const char *name) {
    char path[PATH_MAX];
    struct ps_report_place place;
    int error = path_of(path, directory, name);
    error = error != 0 ? error : ps_report_place_find(&place, path, sizeof path);
    if (error != 0) {
        return -error;
    }
    long open = ps_file_open(place.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    ps_report_place_close(&place);
    return open;
}

long ps_flight_check(const char *directory) {
    long open = open_directory(directory, PREFIX);
    if (ps_syscall_failed(open)) {
        return open;
    }
    (void)ps_file_close((int)open);
    return 0;
}

long ps_flight_make(const char *directory, char name[PS_FLIGHT_NAME_BYTES], size_t bytes) {
    char path[PATH_MAX];
    make_name(name);
    long open = open_directory(directory, name);
    if (ps_syscall_failed(open)) {
        return open;
    }
    remove_oldest(open, true);
    remove_oldest(open, false);
    char hidden[HIDDEN_BYTES];
    hide(hidden, name);
    int error = path_of(path, directory, hidden);
    long memory = error != 0 ? -error : ps_report_map(path, sizeof path, bytes);
    if (ps_syscall_failed(memory)) {
        (void)ps_file_remove((int)open, hidden);
    }
    (void)ps_file_close((int)open);
    return memory;
}

void ps_flight_publish(const char *directory, const char *name) {
    char hidden[HIDDEN_BYTES];
    long open = open_directory(directory, name);
    hide(hidden, name);
    if (!ps_syscall_failed(open)) {
        (void)ps_file_rename((int)open, hidden, name);
        (void)ps_file_close((int)open);
    }
}

void ps_flight_touch(const char *directory, const char *name) {
    long open = open_directory(directory, name);
    if (!ps_syscall_failed(open)) {
        (void)ps_syscall6(SYS_utimensat, open, (long)name, 0, AT_SYMLINK_NOFOLLOW, 0, 0);
        (void)ps_file_close((int)open);
    }
}

void ps_flight_finish(const char *directory, const char *name, size_t bytes) {
    char last_name[PS_FLIGHT_NAME_BYTES];
    size_t stem = strlen(name) - strlen(SUFFIX);
    long open = open_directory(directory, name);
    if (ps_syscall_failed(open)) {
        return;
    }
    long fd = ps_file_open((int)open, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (!ps_syscall_failed(fd)) {
        (void)ps_syscall3(SYS_ftruncate, fd, (long)bytes, 0);
        (void)ps_file_close((int)fd);
    }
    memcpy(last_name, name, stem);
    memcpy(last_name + stem, EXIT_SUFFIX, sizeof EXIT_SUFFIX);
    (void)ps_file_rename((int)open, name, last_name);
    (void)ps_file_close((int)open);
}
