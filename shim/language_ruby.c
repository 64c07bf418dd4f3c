/* SPDX-License-Identifier: MIT */
/*
 * See language.h: frames of Ruby 3.0 to 3.2, by the functions that it has for profilers
 * (ruby/debug.h), which allocate nothing, take no lock, and are called in handlers of signals by
 * others. They are called with the interpreter's lock and outside of its collector only, and in a
 * thread whose native stack has a frame of the loop. The texts are Ruby's strings: each page of
 * them is asked for. State: none.
 */
#include "shim/language.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/profile/profile.h"

#include <string.h>

#define VERSION_MAJOR 3
#define VERSION_LAST 2
#define VERSION_WORDS 2 /* 3.2: the length of a short string has a word of its own */
#define TYPE_MASK 0x1f  /* of the flags, the first word of an object */
#define TYPE_STRING 5
#define IS_LONG ((uintptr_t)1 << 13) /* a length, and the address of the text */
#define SHORT_SHIFT 14               /* of the length of a short string, up to 3.1 */
#define SHORT_MASK 0x1f
#define STRING_WORDS 4

enum call { FRAMES, PATH, LABEL, HAS_LOCK, IS_COLLECTING };

static const char *const names[] = {
    [FRAMES] = "rb_profile_frames",     [PATH] = "rb_profile_frame_path",
    [LABEL] = "rb_profile_frame_label", [HAS_LOCK] = "ruby_thread_has_gvl_p",
    [IS_COLLECTING] = "rb_during_gc",
};
_Static_assert(sizeof names / sizeof names[0] <= PS_LANGUAGE_CALLS, "the calls have room");

typedef int take_frames(int start, int limit, uintptr_t *frames, int *lines);
typedef uintptr_t text_of_frame(uintptr_t frame);
typedef int ask(void);

static bool is_so(const struct ps_language_runtime *runtime, enum call call) {
    ask *function;
    memcpy(&function, &runtime->calls[call], sizeof function);
    return function() != 0;
}

/* A string of Ruby; of a longer one than a record has room for, the last or the first part. False
 * where there is none. */
static bool read_text(const struct ps_language_runtime *runtime, struct ps_language_memory *memory,
                      uintptr_t object, bool is_last_part, struct ps_profile_line *out) {
    uintptr_t words[STRING_WORDS];
    const char *view =
        object % sizeof words[0] == 0 ? ps_language_view(memory, object, sizeof words) : NULL;
    if (view == NULL) {
        return false;
    }
    memcpy(words, view, sizeof words);
    bool is_long = (words[0] & IS_LONG) != 0;
    bool has_word = is_long || runtime->version >= VERSION_WORDS;
    size_t length = has_word ? words[2] : words[0] >> SHORT_SHIFT & SHORT_MASK;
    uintptr_t at = is_long ? words[3] : object + (has_word ? 3 : 2) * sizeof words[0];
    size_t most = ps_min(length, PS_PROFILE_TEXT_BYTES);
    at += is_last_part ? length - most : 0;
    const char *text = ps_language_view(memory, at, most);
    if ((words[0] & TYPE_MASK) != TYPE_STRING || length == 0 || text == NULL) {
        return false;
    }
    *(is_last_part ? &out->file : &out->function) = text;
    *(is_last_part ? &out->file_bytes : &out->function_bytes) = most;
    return true;
}

static uintptr_t text_of(const struct ps_language_runtime *runtime, enum call call,
                         uintptr_t frame) {
    text_of_frame *function;
    memcpy(&function, &runtime->calls[call], sizeof function);
    return function(frame);
}

static size_t ruby_frames(struct ps_language_runtime *runtime,
                          const struct ps_language_stack *stack, struct ps_language_frame *out,
                          size_t limit) {
    (void)stack;
    uintptr_t frames[PS_LANGUAGE_FRAMES];
    int lines[PS_LANGUAGE_FRAMES];
    struct ps_language_memory memory = {.pages = {0}};
    take_frames *take;
    if (!is_so(runtime, HAS_LOCK) || is_so(runtime, IS_COLLECTING)) {
        return 0;
    }
    memcpy(&take, &runtime->calls[FRAMES], sizeof take);
    int taken = take(0, (int)ps_min(limit, PS_LANGUAGE_FRAMES), frames, lines);
    size_t count = 0;
    for (int i = 0; i < taken; i++) {
        struct ps_profile_line line = {.number = (uint32_t)lines[i]};
        uintptr_t path = text_of(runtime, PATH, frames[i]);
        uintptr_t label = text_of(runtime, LABEL, frames[i]);
        uintptr_t site = lines[i] > 0 && read_text(runtime, &memory, path, true, &line) &&
                                 read_text(runtime, &memory, label, false, &line)
                             ? ps_profile_line_site(&line)
                             : 0; /* a method in C has no file, the first frame no line */
        if (site != 0) {
            out[count++] = (struct ps_language_frame){.site = site};
        }
    }
    return count;
}

enum ps_language_answer ps_ruby_start(const struct ps_language_object *object,
                                      struct ps_language_runtime *out) {
    struct ps_language_symbol symbol;
    if (!ps_language_object_find(object, "ruby_api_version", &symbol) ||
        symbol.bytes < 2 * sizeof(int)) {
        return PS_LANGUAGE_NONE;
    }
    const int *version = (const int *)symbol.address;
    if (version[0] != VERSION_MAJOR || (unsigned)version[1] > VERSION_LAST) {
        return PS_LANGUAGE_NONE;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!ps_language_object_find(object, names[i], &symbol)) {
            return PS_LANGUAGE_NONE;
        }
        out->calls[i] = symbol.address;
    }
    out->version = (unsigned)version[1];
    out->needs_loop = true;
    out->frames = ruby_frames;
    return PS_LANGUAGE_FOUND;
}
