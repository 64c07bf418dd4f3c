/* SPDX-License-Identifier: MIT */
/*
 * attacks --list            one line per attack: name, goal, story of its family, tab separated
 * attacks <name>            plays it; tests/attacks/attack.h explains the output
 *
 * Owns the list of the families. Addresses are not randomised where the system allows that: the
 * play is the same every time, as for an attacker who knows them.
 */
#include "attack.h"

#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

static const struct family *const all_families[] = {
    double_free_families, bad_free_families, overflow_families, stale_families,  secret_families,
    resize_families,      metadata_families, sized_families,    beyond_families, left_families,
};

static const char *const goals[] = {
    [GOAL_TWO_OWNERS] = "one memory, two owners",
    [GOAL_CHOSEN_ADDRESS] = "malloc returns a chosen address",
    [GOAL_VICTIM_CHANGED] = "live data of another owner changed",
    [GOAL_SECRET_READ] = "a secret read",
    [GOAL_WRONG_ROOM] = "told of room that is not there",
    [GOAL_UNNOTICED] = "the mistake remains unnoticed",
};

static void name_of(char *name, size_t capacity, const struct family *family,
                    const struct attack *attack) {
    const char *unit = "";
    size_t size = attack->size;
    if (size >= MIB && size % MIB == 0) {
        size /= MIB;
        unit = "M";
    } else if (size >= 16 * KIB && size % KIB == 0) {
        size /= KIB;
        unit = "K";
    }
    snprintf(name, capacity, "%s/%s/%zu%s", family->name, attack->variant, size, unit);
}

/* Calls visit for every attack, until it returns non-zero. */
static int each(int (*visit)(const struct family *, const struct attack *, const char *name,
                             const char *wanted),
                const char *wanted) {
    char name[128];
    for (size_t i = 0; i < sizeof all_families / sizeof all_families[0]; i++) {
        const struct family *family = all_families[i];
        for (; family != NULL && family->name != NULL; family++) {
            for (size_t j = 0; j < family->count; j++) {
                name_of(name, sizeof name, family, &family->attacks[j]);
                if (visit(family, &family->attacks[j], name, wanted)) {
                    return 1;
                }
            }
        }
    }
    return 0;
}

static int show(const struct family *family, const struct attack *attack, const char *name,
                const char *wanted) {
    (void)wanted;
    printf("%s\t%s\t%s\n", name, goals[attack->goal], family->story);
    return 0;
}

static int play(const struct family *family, const struct attack *attack, const char *name,
                const char *wanted) {
    (void)family;
    if (strcmp(name, wanted) != 0) {
        return 0;
    }
    attack->run(attack);
    stage_end(attack->size, "the goal was not reached");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: attacks --list | <name>\n");
        return 2;
    }
    if (strcmp(argv[1], "--list") == 0) {
        return each(show, NULL);
    }
    int persona = personality(0xffffffff);
    if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) == 0 &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) != -1) {
        execv("/proc/self/exe", argv);
    }
    if (!each(play, argv[1])) {
        fprintf(stderr, "attacks: no attack %s\n", argv[1]);
    }
    return 2;
}
