/* SPDX-License-Identifier: MIT */
/*
 * Frames of programs that an interpreter runs, for stacks of the profile: file, function and line.
 * The calling thread reads the interpreter's structures in its own process. It stops no thread,
 * takes no lock of the interpreter, allocates nothing, and reads memory only after the kernel was
 * asked whether it can be read: a version that is not known, or damaged memory, ends the walk.
 *
 * An interpreter is found in the objects of a native stack (unwind.h), by a symbol that it exports.
 * So none is searched for in processes that run none, and one that is loaded later is found when
 * it runs. The result is remembered by the object's identity.
 *
 * Another language: a file language_<name>.c with a function of type ps_language_start, and its row
 * in language.c.
 *
 * Callers: shim/profile_trace.c. Any thread, also in signal handlers. No locks that block.
 */
#ifndef PS_SHIM_LANGUAGE_H
#define PS_SHIM_LANGUAGE_H

#include "pools/engine/base/compiler.h"
#include "shim/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PS_LANGUAGE_FRAMES 64  /* of a thread, the innermost */
#define PS_LANGUAGE_OFFSETS 64 /* of fields, in the structures of an interpreter */
#define PS_LANGUAGE_CALLS 5
#define PS_LANGUAGE_VARIABLES 5

/* A frame of the program. is_entry: a call of the interpreter's loop began with it, so that a frame
 * of the loop on the native stack runs the frames up to this one. */
struct ps_language_frame {
    uintptr_t site; /* of a line record, profile.h */
    bool is_entry;
};

/* The native frames of a thread, innermost first. pointers: the frame pointer where the code has no
 * table, else 0. */
struct ps_language_stack {
    size_t count;
    const uintptr_t *sites;
    uintptr_t *pointers;
};

/* An interpreter in this process. Constant, except the fields with x_. */
struct ps_language_runtime {
    uint64_t identity; /* of its object; 0: the entry is free. Written last. */
    uintptr_t start;   /* of the object, to `end` */
    uintptr_t end;
    uintptr_t loop; /* the function that runs the program */
    size_t loop_bytes;
    /* Stores the frames of the calling thread, innermost first, and returns how many. */
    size_t (*frames)(struct ps_language_runtime *runtime, const struct ps_language_stack *stack,
                     struct ps_language_frame *out, size_t limit);
    bool needs_loop;   /* frames may be read only below a frame of the loop on the native stack */
    bool is_generated; /* no loop runs the program, but generated code: `frames` sets the pointers
                          to 0 of native frames that run none of it */
    bool has_frames;   /* likewise, but `frames` needs no native frames: each part of the native
                          stack in code that no file has takes the place of a loop's frame */
    uintptr_t calls[PS_LANGUAGE_CALLS]; /* functions of the interpreter; the language's own, as the
                                           next ones */
    uintptr_t variables[PS_LANGUAGE_VARIABLES]; /* addresses of the interpreter's own */
    uintptr_t x_types[3]; /* that were recognised; of node, addresses of its loop */
    uint32_t x_key; /* of the thread-specific value with the thread's state, and 1; 0: not known */
    uint16_t offsets[PS_LANGUAGE_OFFSETS];
    uint16_t frame_bytes; /* up to the last field that is read */
    uint16_t code_bytes;
    unsigned version;
    bool is_free_threaded;
};

/* The interpreter that an object has; NULL: none. */
struct ps_language_runtime *ps_language_of(const struct ps_unwind_object *object);

/* The interpreter of a stack that has no frame of one: the first that was found, or, where the
 * stack has code that no file has, the first whose programs are such code. NULL: none is there. */
struct ps_language_runtime *ps_language_of_process(bool has_made_code);

/* ---- symbols of an object: language_object.c ---- */

struct ps_language_object {
    uintptr_t start; /* of its memory, to `end` */
    uintptr_t end;
    uintptr_t bias; /* what its addresses are relative to */
    uintptr_t symbols;
    uintptr_t strings;
    size_t string_bytes;
    uintptr_t hash;     /* DT_GNU_HASH; 0: it has none */
    uintptr_t old_hash; /* DT_HASH, likewise */
};

struct ps_language_symbol {
    uintptr_t address;
    size_t bytes;
};

/* Finds the tables of a loaded object. False when it has none. */
bool ps_language_object_open(const struct ps_unwind_object *from, struct ps_language_object *out);

/* Finds a symbol that the object defines. */
bool ps_language_object_find(const struct ps_language_object *object, const char *name,
                             struct ps_language_symbol *out);

/* ---- memory: language_memory.c ---- */

#define PS_LANGUAGE_PAGES 32

/* Pages that could be read since the walk began; hashed by address, 0: none. */
struct ps_language_memory {
    uintptr_t pages[PS_LANGUAGE_PAGES];
};

/* Asks the kernel. */
bool ps_language_can_read(struct ps_language_memory *memory, uintptr_t address, size_t bytes);

static inline bool ps_language_is_known(const struct ps_language_memory *memory,
                                        uintptr_t address) {
    uintptr_t page = address & ~(PS_UNWIND_PAGE_BYTES - 1);
    return memory->pages[page / PS_UNWIND_PAGE_BYTES % PS_LANGUAGE_PAGES] == page && page != 0;
}

/* The memory at an address, where that can be read; else NULL. At least a byte, at most a page. */
static inline const char *ps_language_view(struct ps_language_memory *memory, uintptr_t address,
                                           size_t bytes) {
    bool is_known =
        ps_language_is_known(memory, address) && ps_language_is_known(memory, address + bytes - 1);
    return PS_LIKELY(is_known) || ps_language_can_read(memory, address, bytes)
               ? (const char *)address
               : NULL;
}

/* Copies the memory at an address; zeroes, if it cannot be read. The same bounds. */
static inline void ps_language_copy(struct ps_language_memory *memory, uintptr_t address, void *out,
                                    size_t bytes) {
    const char *view = ps_language_view(memory, address, bytes);
    if (PS_LIKELY(view != NULL)) {
        memcpy(out, view, bytes);
    } else {
        memset(out, 0, bytes);
    }
}

/* ---- texts: language_text.c ---- */

#define PS_LANGUAGE_TEXT_BYTES 255

/* A text in UTF-8, without a terminator; in the interpreter's memory or in `buffer`. */
struct ps_language_text {
    const char *bytes;
    size_t length;
    bool is_cut; /* the rest is dots */
    char buffer[PS_LANGUAGE_TEXT_BYTES];
};

/* Characters in the interpreter's memory: one byte is Latin-1, two are UTF-16, four UTF-32. */
struct ps_language_characters {
    uintptr_t start;
    size_t length;
    size_t unit;   /* bytes of one */
    bool is_ascii; /* is known to be */
};

/* Reads characters; if a text has no room for all, the last or the first part, with dots. False
 * when they cannot be read. */
bool ps_language_text_read(struct ps_language_memory *memory,
                           const struct ps_language_characters *from, bool is_last_part,
                           struct ps_language_text *out);

/* Begins a text that parts are appended to. */
void ps_language_text_begin(struct ps_language_text *out);

/* Appends characters of a view to the buffer. False when there is no room for all, or was none. */
bool ps_language_text_append(struct ps_language_text *out, const char *view, size_t length,
                             size_t unit);

/* ---- languages ---- */

/* LATER: the object's constructors have not run yet. */
enum ps_language_answer { PS_LANGUAGE_NONE, PS_LANGUAGE_FOUND, PS_LANGUAGE_LATER };

/* Recognises an interpreter in an object that exports its symbol, and fills in its fields.
 * NONE when the version is not known. */
typedef enum ps_language_answer ps_language_start(const struct ps_language_object *object,
                                                  struct ps_language_runtime *out);

enum ps_language_answer ps_python_start(const struct ps_language_object *object,
                                        struct ps_language_runtime *out);
enum ps_language_answer ps_ruby_start(const struct ps_language_object *object,
                                      struct ps_language_runtime *out);
enum ps_language_answer ps_v8_start(const struct ps_language_object *object,
                                    struct ps_language_runtime *out);
enum ps_language_answer ps_java_start(const struct ps_language_object *object,
                                      struct ps_language_runtime *out);

/* The object of the virtual machine that the calling thread may be one of. A few times at most, it
 * searches the thread-specific values. False: none was found. */
bool ps_java_find_object(struct ps_unwind_object *out);

#endif
