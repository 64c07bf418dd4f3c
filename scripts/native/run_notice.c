/* SPDX-License-Identifier: MIT */
/*
 * One line on stderr where `poolshim run` is given a command that starts the program without the
 * preload: sudo clears the environment, docker has a daemon start it. The command itself is loaded
 * with the library, so that run_target.c has nothing to refuse. `poolshim doctor` has the same
 * names (poolshim_cli/doctor/starters.py) and says what to do; a test compares them.
 */
#include "scripts/native/run.h"

#include <stdio.h>
#include <string.h>

enum { WRAPPERS_MAX = 8 }; /* commands before the starter: env nice sudo ... */

struct starter {
    const char *name;
    const char *words; /* one of them starts something; "": any word that is no option */
};

static const struct starter clearing[] = {
    {"sudo", ""},  {"doas", ""},           {"pkexec", ""},
    {"login", ""}, {"su", "- -l --login"}, {"runuser", "- -l --login"},
};

static const struct starter elsewhere[] = {
    {"systemctl", "start restart try-restart reload-or-restart enable"},
    {"service", ""},
    {"systemd-run", ""},
    {"docker", "run exec start create compose restart"},
    {"docker-compose", "up run exec start restart"},
    {"podman", "run exec start create restart"},
    {"kubectl", "run exec apply create debug"},
    {"nerdctl", "run exec start create restart"},
    {"machinectl", ""},
    {"lxc", "exec start launch"},
    {"lxc-attach", ""},
    {"flatpak", "run"},
    {"snap", "run start"},
    {"ssh", ""},
    {"at", ""},
    {"batch", ""},
};

/* They become the program whose name follows their options. */
static const char *const wrappers[] = {"env",    "nice",    "ionice", "nohup",
                                       "setsid", "timeout", "stdbuf", "time"};

static const char *base_of(const char *word) {
    const char *slash = strrchr(word, '/');
    return slash == NULL ? word : slash + 1;
}

/* Is the word one of several with blanks between them? */
static bool is_among(const char *word, const char *words) {
    size_t length = strlen(word);
    for (const char *at = words; *at != '\0' && length > 0;) {
        size_t part = strcspn(at, " ");
        if (part == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += part + (at[part] == ' ');
    }
    return false;
}

static const struct starter *find(const struct starter *rows, size_t count, char *const *words) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, base_of(words[0])) != 0) {
            continue;
        }
        bool starts = false;
        for (char *const *word = words + 1; *word != NULL; word++) {
            if (strstr(*word, "LD_PRELOAD") != NULL) {
                return NULL; /* sudo --preserve-env=LD_PRELOAD, docker run -e LD_PRELOAD=... */
            }
            starts |= rows[i].words[0] == '\0' ? (*word)[0] != '-' : is_among(*word, rows[i].words);
        }
        return starts ? &rows[i] : NULL;
    }
    return NULL;
}

/* The command after `env A=1 nice -n 5 ...`; options, assignments and numbers are the wrapper's. */
static char *const *behind_wrappers(char *const *words) {
    for (int depth = 0; depth < WRAPPERS_MAX; depth++) {
        bool is_wrapper = false;
        for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
            is_wrapper |= strcmp(wrappers[i], base_of(words[0])) == 0;
        }
        char *const *next = words + 1;
        while (is_wrapper && *next != NULL &&
               ((*next)[0] == '-' || strchr(*next, '=') != NULL ||
                strchr("0123456789.", (*next)[0]) != NULL)) {
            next++;
        }
        if (!is_wrapper || *next == NULL) {
            break;
        }
        words = next;
    }
    return words;
}

void run_notice_starter(char *const *words) {
    words = behind_wrappers(words);
    const struct starter *row = find(clearing, sizeof clearing / sizeof clearing[0], words);
    if (row != NULL) {
        fprintf(stderr,
                "poolshim run: %s starts programs without LD_PRELOAD, so this has no effect on "
                "them: %s poolshim run -- PROGRAM\n",
                row->name, row->name);
        return;
    }
    row = find(elsewhere, sizeof elsewhere / sizeof elsewhere[0], words);
    if (row != NULL) {
        fprintf(stderr,
                "poolshim run: %s has another process start the program, which does not inherit "
                "LD_PRELOAD: poolshim doctor -- %s ... says what to do\n",
                row->name, row->name);
    }
}
