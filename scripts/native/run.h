/* SPDX-License-Identifier: MIT */
/*
 * What the parts of `poolshim run` share: run.c reads the command line and becomes the command,
 * run_options.c owns the settings, run_library.c finds the library to preload, run_target.c says
 * whether it can take effect, run_notice.c where a started program ignores it. A program of one
 * thread that ends by exec: nothing is ever freed, and every failure ends the process here, with
 * one line.
 */
#ifndef PS_NATIVE_RUN_H
#define PS_NATIVE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_OWN_FAILURE = 125, EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

/* "poolshim run: <message>" on stderr, then the end. */
__attribute__((noreturn, format(printf, 2, 3))) void run_die(int status, const char *format, ...);

/* printf into memory of its own; dies without memory. */
__attribute__((format(printf, 1, 2))) char *run_text(const char *format, ...);

/* ---- run_options.c: one flag per row of shim/config.def, and profiles ---- */

/*
 * Takes --<name>, --<name>=<value> or, with `next`, --<name> <value>. Returns how many words that
 * were, 0 if the word is no setting. Dies if the value is none that the library would accept.
 */
int run_options_take(const char *word, const char *next);

/* Settings from a file that `poolshim tune` wrote; those that flags give win. Dies as above. */
void run_options_read_profile(const char *path);

/* Is any setting given? Its name as a flag, or NULL. */
const char *run_options_first(void);

/* Refuses settings that contradict each other; then "NAME=VALUE" of each, ending in NULL. */
char *const *run_options_finish(void);

/* The settings in force with these flags in this environment, and the library's complaints about
 * them, on standard output, as the library says them. */
void run_options_list(void);

/* The settings' part of --help, on standard output. */
void run_options_print_help(void);

/* Which of `own` (ending in NULL) and the settings the misspelt flag is likely to be. */
const char *run_options_nearest(const char *word, const char *const *own);

/* ---- run_library.c: the library to preload ---- */

/* The file to preload for --allocator <name>, absolute; NULL: nothing. Dies if there is none. */
const char *run_library_find(const char *name);

/* The names that --allocator takes, separated by commas. */
const char *run_library_names(void);

/* The file's name without its folders. */
const char *run_library_name(const char *path);

/* Does an entry of LD_PRELOAD name this very file? */
bool run_library_is_same(const char *entry, const char *library);

/* Does an entry of LD_PRELOAD define malloc? Also true where only the loader can tell. */
bool run_library_is_allocator(const char *entry);

/* ---- run_target.c: the program to start ---- */

struct elf_facts {
    bool is_elf;
    unsigned char bits;    /* EI_CLASS */
    unsigned char order;   /* EI_DATA */
    uint16_t type;         /* e_type; like what follows only if bits and order are our own */
    uint16_t machine;      /* e_machine */
    char interpreter[256]; /* PT_INTERP; "" for a static program */
    bool has_poolshim;     /* libpoolshim.a is linked into it: shim/linked/note.c */
};

/* False: the file cannot be read; errno says why. */
bool run_target_read_elf(const char *path, struct elf_facts *facts);

/* The file that execvp would start. Dies with 126 or 127 if there is none. */
const char *run_target_find(const char *name);

/* NULL, or why the library would not be in the program that starts. */
const char *run_target_refusal(const char *path, const char *library);

/* ---- run_notice.c: commands whose programs do not get the preload ---- */

/* One line on stderr if the command, which ends with NULL, is one of these. */
void run_notice_starter(char *const *words);

#endif
