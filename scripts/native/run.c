/* SPDX-License-Identifier: MIT */
/*
 * The command `poolshim run`: becomes a program that has the library preloaded and its settings in
 * the environment. Not in Python, because what a program inherits would be Python's: its RSS counts
 * as the program's ru_maxrss, and it takes 100 times as long to start.
 *
 * Exit status: the command's own, as there is no other process; 125 if this program failed or the
 * preload could not work, 126 if the command cannot be executed, 127 if it was not found.
 */
#include "scripts/native/run.h"

#include "pools/include/poolshim/poolshim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVIRONMENT_LIMIT = 256 };

struct request {
    const char *allocator;
    const char *profile;
    bool is_forced;
    bool is_dry;
    bool is_listing;
    char *environment[ENVIRONMENT_LIMIT]; /* of --env */
    size_t environment_count;
    char **command;
};

static const char *const own_flags[] = {"allocator", "dry-run", "env",     "force", "help",
                                        "settings",  "tuned",   "version", NULL};

void run_die(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *message = NULL;
    if (vasprintf(&message, format, arguments) < 0) {
        message = (char *)"out of memory";
    }
    va_end(arguments);
    fprintf(stderr, "poolshim run: %s\n", message);
    exit(status);
}

char *run_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        run_die(EXIT_OWN_FAILURE, "out of memory");
    }
    return text;
}

/* Ends this program, which printed the requested text; a full disk is its failure. */
__attribute__((noreturn)) static void end_printed(void) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        run_die(EXIT_OWN_FAILURE, "standard output: %s", strerror(errno));
    }
    exit(0);
}

static void print_help(void) {
    printf("usage: poolshim run [options] [--] command [argument...]\n"
           "\n"
           "Replaces itself with the command, libpoolshim.so put first in LD_PRELOAD.\n"
           "\n"
           "  --allocator NAME|FILE  preload another allocator: %s;\n"
           "                         or a library, by a path with a slash\n"
           "  --tuned FILE           read settings that poolshim tune wrote\n"
           "  --env NAME=VALUE       set a variable for the command; may be repeated\n"
           "  --force                start also where the preload cannot take effect\n"
           "  --dry-run              print the command line for the shell instead of starting it\n"
           "  --settings             list the settings in force and the source of each\n"
           "  --version, --help\n"
           "\n"
           "Settings, for the command and its children; each is POOLSHIM_<NAME> of "
           "docs/options.md:\n",
           run_library_names());
    run_options_print_help();
    puts("\nExit status: the command's; 125 for a mistake in the options or a preload without\n"
         "effect, 126 if the command cannot be executed, 127 if it is not found.");
}

/* ---- the command line ---- */

/* The value of the flag if `word` is --<name>, whose value may be the next word; else NULL. */
static const char *value_of(const char *word, const char *name, const char *next, int *words) {
    size_t length = strlen(name);
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0) {
        return NULL;
    }
    const char *rest = word + 2 + length;
    if (*rest == '=') {
        *words = 1;
        return rest + 1;
    }
    if (*rest != '\0') {
        return NULL;
    }
    if (next == NULL) {
        run_die(EXIT_OWN_FAILURE, "--%s needs a value", name);
    }
    *words = 2;
    return next;
}

static void add_environment(struct request *request, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment) {
        run_die(EXIT_OWN_FAILURE, "--env needs NAME=VALUE, not \"%s\"", assignment);
    }
    if (request->environment_count == ENVIRONMENT_LIMIT) {
        run_die(EXIT_OWN_FAILURE, "more than %d times --env", ENVIRONMENT_LIMIT);
    }
    request->environment[request->environment_count++] = (char *)assignment;
}

/* Takes one flag; returns how many words it was, 0 if there is none of that name. */
static int take_own(struct request *request, const char *word, const char *next) {
    int words = 1;
    const char *value;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help();
        end_printed();
    }
    if (strcmp(word, "--version") == 0) {
        puts("poolshim " POOLSHIM_VERSION);
        end_printed();
    }
    if (strcmp(word, "--force") == 0) {
        request->is_forced = true;
    } else if (strcmp(word, "--dry-run") == 0) {
        request->is_dry = true;
    } else if (strcmp(word, "--settings") == 0) {
        request->is_listing = true;
    } else if ((value = value_of(word, "allocator", next, &words)) != NULL) {
        request->allocator = value;
    } else if ((value = value_of(word, "tuned", next, &words)) != NULL) {
        request->profile = value;
    } else if ((value = value_of(word, "env", next, &words)) != NULL) {
        add_environment(request, value);
    } else {
        return 0;
    }
    return words;
}

static void parse_request(struct request *request, char **words) {
    while (*words != NULL && (*words)[0] == '-' && (*words)[1] != '\0') {
        if (strcmp(*words, "--") == 0) {
            words++;
            break;
        }
        int taken = take_own(request, words[0], words[1]);
        if (taken == 0) {
            taken = run_options_take(words[0], words[1]);
        }
        if (taken == 0) {
            run_die(EXIT_OWN_FAILURE, "no option %s; the nearest is --%s", words[0],
                    run_options_nearest(words[0], own_flags));
        }
        words += taken;
    }
    request->command = words;
    if (request->command[0] == NULL && !request->is_listing) {
        run_die(EXIT_OWN_FAILURE, "no command given; see --help");
    }
}

/* ---- the start ---- */

/* One entry of LD_PRELOAD, copied; NULL at the end. Moves `at` after it. */
static char *next_entry(const char **at) {
    *at += strspn(*at, ": ");
    size_t length = strcspn(*at, ": ");
    if (length == 0) {
        return NULL;
    }
    char *entry = run_text("%.*s", (int)length, *at);
    *at += length;
    return entry;
}

/*
 * LD_PRELOAD with the library first, and once: any other allocator before it would serve every call
 * and leave this one mapped without effect. Says so where the order has changed which one serves.
 */
static char *preload_with(const char *library) {
    if (strpbrk(library, ": ") != NULL) {
        run_die(EXIT_OWN_FAILURE, "%s: LD_PRELOAD takes no path with a blank or a colon", library);
    }
    const char *before = getenv("LD_PRELOAD");
    char *result = run_text("%s", library);
    const char *overtaken = "";
    bool is_passed = false; /* the library: what comes later did not serve before either */
    for (char *entry; before != NULL && (entry = next_entry(&before)) != NULL;) {
        if (run_library_is_same(entry, library)) {
            is_passed = true;
            continue;
        }
        result = run_text("%s:%s", result, entry);
        if (!is_passed && run_library_is_allocator(entry)) {
            overtaken = run_text("%s%s%s", overtaken, overtaken[0] == '\0' ? "" : ", ",
                                 run_library_name(entry));
        }
    }
    if (overtaken[0] != '\0') {
        fprintf(stderr,
                "poolshim run: LD_PRELOAD names another allocator (%s): %s is put first and serves "
                "instead\n",
                overtaken, run_library_name(library));
    }
    return result;
}

/* A word of the dry run, as a shell reads it. */
static void print_word(const char *word) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-+=./:,@%";
    if (word[0] != '\0' && word[strspn(word, safe)] == '\0') {
        printf(" %s", word);
        return;
    }
    fputs(" '", stdout);
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*word);
        }
    }
    putchar('\'');
}

static void set_variable(char *assignment, bool is_dry) {
    putenv(assignment);
    if (is_dry) {
        print_word(assignment);
    }
}

/* The environment of the command, also printed if this is a dry run. */
static void prepare(const struct request *request, const char *library) {
    for (char *const *setting = run_options_finish(); *setting != NULL; setting++) {
        set_variable(*setting, request->is_dry);
    }
    for (size_t i = 0; i < request->environment_count; i++) {
        set_variable(request->environment[i], request->is_dry);
    }
    if (library != NULL) {
        set_variable(run_text("LD_PRELOAD=%s", preload_with(library)), request->is_dry);
    }
}

int main(int argc, char **argv) {
    static struct request request = {.allocator = "poolshim"};
    parse_request(&request, argv + (argc > 0));
    if (request.profile != NULL) {
        run_options_read_profile(request.profile);
    }
    if (request.is_listing) {
        for (char *const *setting = run_options_finish(); *setting != NULL; setting++) {
            putenv(*setting);
        }
        run_options_list();
        end_printed();
    }
    bool is_ours = strcmp(request.allocator, "poolshim") == 0 || strchr(request.allocator, '/');
    if (!is_ours && run_options_first() != NULL) {
        run_die(EXIT_OWN_FAILURE, "--%s is a setting of poolshim, not of %s", run_options_first(),
                request.allocator);
    }
    const char *library = run_library_find(request.allocator);
    const char *path = run_target_find(request.command[0]);
    const char *refusal = library == NULL ? NULL : run_target_refusal(path, library);
    if (refusal != NULL && !request.is_forced) {
        run_die(EXIT_OWN_FAILURE, "%s; --force starts it all the same", refusal);
    }
    if (refusal != NULL) {
        fprintf(stderr, "poolshim run: %s\n", refusal);
    } else if (library != NULL) {
        run_notice_starter(request.command);
    }
    fputs(request.is_dry ? "env" : "", stdout);
    prepare(&request, library);
    if (request.is_dry) {
        for (char **word = request.command; *word != NULL; word++) {
            print_word(*word);
        }
        puts("");
        end_printed();
    }
    execvp(request.command[0], request.command);
    int error = errno;
    run_die(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE, "%s: %s", request.command[0],
            strerror(error));
}
