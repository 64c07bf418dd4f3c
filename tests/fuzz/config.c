// sources: shim/config.c shim/config_number.c shim/config_value.c shim/config_report.c
// sources: shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: any environment, as an array or as a file. Whatever it says, the settings in force
 * are ones that the engine can run with, each fault has one line, a privileged program is not
 * touched by any of it, and what the settings print as reads back as the same settings.
 */
#include "shim/config.h"
#include "pools/engine/small/size_class.h"
#include "shim/environment.h"
#include "tests/fuzz/lib/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES_MAX 24
#define ENTRY_BYTES_MAX 9216 /* longer than the buffer for the file */
#define TEXT_BYTES 8192
#define MESSAGE_BYTES (1 << 20)

enum { AS_FILE = 1, IS_SECURE = 2 };

static struct ps_settings settings;
static char messages[MESSAGE_BYTES];

/* The output goes into a file in memory, and from there into `messages`. */
static uint32_t read_from(struct ps_config_input *input) {
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("messages", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    input->message_fd = fd;
    uint32_t faults = ps_config_read(&settings, input);
    ssize_t length = pread(fd, messages, sizeof messages - 1, 0);
    FUZZ_CHECK(length >= 0);
    messages[length] = '\0';
    return faults;
}

static size_t count_lines(void) {
    size_t lines = 0;
    for (const char *c = messages; *c != '\0'; c++) {
        lines += *c == '\n';
    }
    return lines;
}

static void check_is_sound(void) {
    const struct ps_config *engine = &settings.engine;
    FUZZ_CHECK(ps_size_class_is_valid(engine->class_bytes, engine->class_count));
    FUZZ_CHECK(engine->small_max_bytes == 0 || (engine->small_max_bytes >= 1024 &&
                                                engine->small_max_bytes <= PS_CLASS_BYTES_LIMIT));
    FUZZ_CHECK(engine->small_max_bytes == 0 || engine->class_count == 0 ||
               engine->small_max_bytes >= engine->class_bytes[engine->class_count - 1]);
    FUZZ_CHECK(engine->mmap_min_bytes >= 128 << 10 && engine->mmap_min_bytes <= 1 << 30);
    FUZZ_CHECK((unsigned)engine->huge.policy <= PS_HUGE_HUGETLB);
    FUZZ_CHECK((unsigned)engine->foreign <= PS_FOREIGN_IGNORE);
    FUZZ_CHECK((unsigned)settings.stats_target <= PS_STATS_FILE);
    FUZZ_CHECK(settings.stats_target != PS_STATS_FILE ||
               memchr(settings.stats_path, '\0', sizeof settings.stats_path) != NULL);
    FUZZ_CHECK(memchr(settings.record_path, '\0', sizeof settings.record_path) != NULL);
    FUZZ_CHECK(memchr(settings.trace_path, '\0', sizeof settings.trace_path) != NULL);
    FUZZ_CHECK(engine->record ==
               (settings.record_path[0] != '\0' || settings.trace_path[0] != '\0'));
    FUZZ_CHECK(settings.record_path[0] == '\0' || settings.trace_path[0] == '\0');
    FUZZ_CHECK(!engine->record || (engine->harden == 0 && engine->guard_sample == 0));
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        FUZZ_CHECK(settings.origins[i] <= PS_ORIGIN_VARIABLE);
    }
    ps_size_class_start(engine);
    FUZZ_CHECK(ps_size_class_count >= 1 && ps_size_class_count <= PS_CLASS_LIMIT);
}

/* All settings as an environment; those that only the engine knows are left out. */
static void print_settings(char texts[][TEXT_BYTES], char **environment) {
    size_t count = 0;
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        char value[TEXT_BYTES - 64];
        struct ps_text text;
        ps_text_start(&text, value, sizeof value - 1, PS_TEXT_TO_BUFFER);
        ps_value_print(&ps_options[i], &settings, &text);
        FUZZ_CHECK(!text.has_failed);
        value[text.length] = '\0';
        bool is_file = (i == PS_OPTION_STATS && settings.stats_target == PS_STATS_FILE) ||
                       (i == PS_OPTION_RECORD && settings.record_path[0] != '\0');
        if (value[0] != '\0' && (is_file || strcmp(value, "built-in") != 0)) {
            snprintf(texts[count], TEXT_BYTES, PS_ENVIRONMENT_PREFIX "%s=%s", ps_options[i].name,
                     value);
            environment[count] = texts[count];
            count++;
        }
    }
    environment[count] = NULL;
}

static void check_reads_back(void) {
    static char first[PS_OPTION_COUNT][TEXT_BYTES];
    static char second[PS_OPTION_COUNT][TEXT_BYTES];
    char *environment[PS_OPTION_COUNT + 1];
    char *again[PS_OPTION_COUNT + 1];
    settings.verbose = false;
    settings.help = false;
    print_settings(first, environment);
    struct ps_config_input input = {.environment = environment};
    FUZZ_CHECK(read_from(&input) == 0);
    FUZZ_CHECK(messages[0] == '\0');
    print_settings(second, again);
    for (size_t i = 0; i < PS_OPTION_COUNT; i++) {
        FUZZ_CHECK((environment[i] == NULL) == (again[i] == NULL));
        if (environment[i] == NULL) {
            return;
        }
        FUZZ_CHECK(strcmp(environment[i], again[i]) == 0);
    }
}

static void check_is_untouched(uint32_t faults) {
    const struct ps_config defaults = PS_CONFIG_DEFAULT;
    FUZZ_CHECK(faults == 0 && count_lines() <= 1);
    FUZZ_CHECK(settings.engine.class_count == 0 &&
               settings.engine.purge_delay_ms == defaults.purge_delay_ms);
    FUZZ_CHECK(!settings.verbose && !settings.help && !settings.strict);
    FUZZ_CHECK(settings.stats_target == PS_STATS_OFF);
}

/*
 * An entry: a byte that chooses an option's name, or none, then text up to a NUL or the end of the
 * input. A text that ends in \xff and two bytes is repeated until it is very long. Allocated to its
 * exact length, so that a read past it is seen.
 */
static char *read_entry(struct fuzz_input *input) {
    static char buffer[ENTRY_BYTES_MAX];
    uint8_t kind = fuzz_byte(input);
    size_t length = 0;
    if (kind < 224) {
        length =
            (size_t)snprintf(buffer, sizeof buffer,
                             PS_ENVIRONMENT_PREFIX "%s=", ps_options[kind % PS_OPTION_COUNT].name);
    }
    size_t start = length;
    uint8_t byte;
    while (length < sizeof buffer && !fuzz_is_over(input) && (byte = fuzz_byte(input)) != 0) {
        if (byte == 0xff && length > start) {
            size_t wanted = fuzz_number(input, 2) % sizeof buffer;
            size_t period = length - start;
            for (; length < wanted; length++) {
                buffer[length] = buffer[length - period];
            }
            break;
        }
        buffer[length++] = (char)byte;
    }
    char *entry = malloc(length + 1);
    FUZZ_CHECK(entry != NULL);
    memcpy(entry, buffer, length);
    entry[length] = '\0';
    return entry;
}

/* The entries with a NUL after each, as /proc/self/environ has them. */
static void write_file(char **environment, char *path, size_t capacity) {
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("environ", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    for (; *environment != NULL; environment++) {
        size_t bytes = strlen(*environment) + 1;
        FUZZ_CHECK(write(fd, *environment, bytes) == (ssize_t)bytes);
    }
    snprintf(path, capacity, "/proc/self/fd/%d", fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    struct fuzz_input bytes_left = {bytes, count};
    unsigned kind = fuzz_byte(&bytes_left) % 4;
    char *environment[ENTRIES_MAX + 1];
    size_t entries = 0;
    while (entries < ENTRIES_MAX && !fuzz_is_over(&bytes_left)) {
        environment[entries++] = read_entry(&bytes_left);
    }
    environment[entries] = NULL;
    char path[64] = "/nonexistent";
    struct ps_config_input input = {.environment = environment, .environment_file = path};
    if ((kind & AS_FILE) != 0) {
        write_file(environment, path, sizeof path);
        input.environment = NULL;
    }
    input.is_secure = (kind & IS_SECURE) != 0;
    uint32_t faults = read_from(&input);
    check_is_sound();
    if (input.is_secure) {
        check_is_untouched(faults);
    } else if (!settings.verbose && !settings.help && strlen(messages) < MESSAGE_BYTES - 1) {
        bool has_former = strstr(messages, " now; the next version will not read") != NULL;
        FUZZ_CHECK(count_lines() == faults + has_former);
    }
    check_reads_back();
    for (size_t i = 0; i < entries; i++) {
        free(environment[i]);
    }
    return 0;
}
