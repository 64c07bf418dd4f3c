/* SPDX-License-Identifier: MIT */
/*
 * What an attack is, and the stage that all of them play on.
 *
 * An attack misuses malloc the way a broken or an attacked program does, and then goes on like that
 * program, until its goal is reached or a check finds the heap in order. It knows no allocator: it
 * uses the standard functions only. Every attack is a process of its own.
 *
 * The stage says on standard output how far the play has come, so that a process that dies tells
 * where: "misuse" before each call or access that breaks the rules, "after" when it returned,
 * "reached: <how>" when the goal is reached, "contained: <why>" when the heap is in order at the
 * end.
 *
 * Called by the families (one table each, see main.c). One thread plays at a time, by stage_thread;
 * no locks. Nothing here allocates but stage_take, and what calls it.
 */
#ifndef PS_TESTS_ATTACK_H
#define PS_TESTS_ATTACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* What the attacker wants. Whatever the goal, a heap that is broken for the program is one too. */
enum goal {
    GOAL_TWO_OWNERS,     /* the same memory handed to two owners */
    GOAL_CHOSEN_ADDRESS, /* malloc returns an address that the attacker wrote */
    GOAL_VICTIM_CHANGED, /* live data of somebody else changed */
    GOAL_SECRET_READ,    /* data of the last or the next owner of a block were read */
    GOAL_WRONG_ROOM,     /* told of room that is not there */
    GOAL_UNNOTICED,      /* the program ends as if nothing had happened */
};

struct attack {
    const char *variant;
    enum goal goal;
    size_t size; /* bytes of the block it is about */
    void (*run)(const struct attack *attack);
    size_t a; /* what the family's functions make of them */
    size_t b;
};

struct family {
    const char *name;
    const char *story; /* one line for the documentation */
    const struct attack *attacks;
    size_t count;
};

#define FAMILY(name, story, attacks)                                                               \
    { name, story, attacks, sizeof(attacks) / sizeof((attacks)[0]) }

extern const struct family double_free_families[];
extern const struct family bad_free_families[];
extern const struct family overflow_families[];
extern const struct family stale_families[];
extern const struct family secret_families[];
extern const struct family resize_families[];
extern const struct family metadata_families[];
extern const struct family sized_families[] __attribute__((weak)); /* C++: NULL without it */
extern const struct family beyond_families[];
extern const struct family left_families[];

/* ---- how far the play has come ---- */

/* The next statement breaks the rules. */
void stage_misuse(void);

/* The misuse is done and the program goes on. */
void stage_after(void);

/* The goal is reached: ends the process. */
__attribute__((noreturn)) void stage_reached(const char *how);

/* The program ends by exit, with all that runs then: an allocator that stops it there has noticed.
 */
__attribute__((noreturn)) void stage_unnoticed(const char *how);

/* The attack itself does not work here (no memory, no thread): ends the process as broken. */
__attribute__((noreturn)) void stage_broken(const char *why);

/* ---- blocks whose owners are honest ---- */

/* A block that malloc or another function returned, filled with a pattern and remembered. Overlaps
 * with anything remembered, and no memory, reach the goal. */
char *stage_take_as(void *block, size_t size);

/* The same for a block of malloc. Inlined: each owner allocates at a place of its own, as owners in
 * different functions of a program do. */
static inline __attribute__((always_inline)) char *stage_take(size_t size) {
    return stage_take_as(malloc(size), size);
}

/* Memory that malloc must not return: recorded, its contents left alone. */
void stage_own(void *memory, size_t size, const char *label);

/* The pattern is looked at for the last time (a change reaches the goal), the block freed. */
void stage_drop(void *block);

/* The block is no longer remembered; its memory is left alone. */
void stage_forget(void *block);

/* Forget, and free: what the program does to a block that an attacker has changed. */
void stage_free(void *block);

/* The memory of the attacker's own block was changed in a legal way: the pattern is made anew. */
void stage_refill(void *block);

/* Every pattern; a change reaches the goal. */
void stage_check(void);

/* The block that covers the address, or NULL. */
char *stage_block_at(const void *address);

/* ---- what comes after the misuse ---- */

/* How many blocks of the size a hunt asks for. */
size_t stage_hunt_count(size_t size);

/* Asks for blocks of the size until all that the misuse can have put in malloc's way came out.
 * Twice, with three of four blocks of the first round freed in between: some allocators look at
 * what came back only when much has. */
void stage_hunt(size_t size);

/* The same by a function that allocates as stage_take does. */
void stage_hunt_by(char *(*take)(size_t size), size_t size);

/* The program goes on: random calls around the size, all patterns checked. Then "contained". */
__attribute__((noreturn)) void stage_end(size_t size, const char *why);

/* ---- threads and hidden values ---- */

/* Runs call(argument) on the second thread (of two) to its end. */
void stage_on_thread(void (*call)(void *argument), void *argument);

/* free and hunt over there. */
void stage_free_on_thread(void *block);
void stage_hunt_on_thread(size_t size);

/* Runs call(argument) on a thread of its own, which has ended when this returns. */
void stage_on_short_thread(void (*call)(void *argument), void *argument);

/* free, here or there, or by a thread that has ended when this returns. */
enum stage_freer { SELF, OTHER, ENDED };
void stage_free_by(size_t freer, void *block);

/* 4 KiB outside the heap, aligned to a page, zero, remembered as "the chosen address". */
char *stage_chosen(void);

/* The address of a pointer: without the tag that it has in its upper byte where memory is tagged.
 * An attacker knows where blocks lie, and uses the pointers that the program has. */
uintptr_t stage_address(const void *pointer);

/* The same pointer, its origin hidden from the compiler. */
void *stage_hide(const void *pointer);

/* Writes count bytes, each where it belongs, nothing wider, past every check of the compiler. */
void stage_write(void *memory, int byte, size_t count);

/* Writes the value into count words. */
void stage_write_words(void *memory, uintptr_t value, size_t count);

#ifdef __cplusplus
}
#endif

#endif
