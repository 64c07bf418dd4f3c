/* SPDX-License-Identifier: MIT */
/*
 * See language.h: the languages, and which objects have one. State: the identities of objects that
 * have none, and the interpreters that were found. Nothing blocks: while a thread enters an
 * interpreter, the samples of others have no frames of it.
 */
#include "shim/language.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/syscall.h"

#define RUNTIMES 4
#define OTHERS 256

static const struct {
    const char *loop; /* a symbol that only its interpreter defines */
    ps_language_start *start;
} languages[] = {
    {"_PyEval_EvalFrameDefault", ps_python_start},
    {"rb_vm_exec", ps_ruby_start},
    {"v8dbg_off_fp_function", ps_v8_start},
    {"gHotSpotVMStructs", ps_java_start},
};

static struct ps_language_runtime runtimes[RUNTIMES];
static PS_SPARSE uint64_t x_others[OTHERS]; /* identities of objects without an interpreter */
static uint32_t x_writer; /* process of the thread that enters a runtime, 0: none */

static uint64_t *place_of_other(uint64_t identity) { return &x_others[identity % OTHERS]; }

static struct ps_language_runtime *find_known(uint64_t identity) {
    for (size_t i = 0; i < RUNTIMES; i++) {
        /* acquire: pairs with enter; makes the rest of the entry visible. */
        if (ps_load_acquire(&runtimes[i].identity) == identity) {
            return &runtimes[i];
        }
    }
    return NULL;
}

/* Searches an object for an interpreter. */
static enum ps_language_answer recognise(const struct ps_unwind_object *from,
                                         struct ps_language_runtime *out) {
    struct ps_language_object object;
    if (!ps_language_object_open(from, &object)) {
        return PS_LANGUAGE_NONE;
    }
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        struct ps_language_symbol loop;
        if (ps_language_object_find(&object, languages[i].loop, &loop)) {
            out->start = object.start;
            out->end = object.end;
            out->loop = loop.address;
            out->loop_bytes = loop.bytes;
            return languages[i].start(&object, out);
        }
    }
    return PS_LANGUAGE_NONE;
}

static void enter(const struct ps_unwind_object *from) {
    struct ps_language_runtime found = {.identity = 0};
    if (find_known(from->identity) != NULL) {
        return; /* another thread was faster */
    }
    enum ps_language_answer answer = recognise(from, &found);
    struct ps_language_runtime *place = answer == PS_LANGUAGE_FOUND ? find_known(0) : NULL;
    if (answer == PS_LANGUAGE_LATER) {
        return;
    }
    if (place == NULL) {
        /* relaxed: the word is all there is. */
        ps_store_relaxed(place_of_other(from->identity), from->identity);
        return;
    }
    *place = found;
    ps_store_release(&place->identity, from->identity); /* release: pairs with find_known */
}

struct ps_language_runtime *ps_language_of(const struct ps_unwind_object *object) {
    /* relaxed: the word is all there is. */
    if (PS_LIKELY(ps_load_relaxed(place_of_other(object->identity)) == object->identity)) {
        return NULL;
    }
    struct ps_language_runtime *known = find_known(object->identity);
    if (known != NULL || object->identity == 0) {
        return known;
    }
    /* In the child of a fork the number may be of its parent, whose thread does not exist here. */
    uint32_t own = (uint32_t)ps_syscall3(SYS_getpid, 0, 0, 0);
    uint32_t writer = ps_load_relaxed(&x_writer); /* relaxed: the swap decides */
    /* acquire: pairs with the release below; makes the entries visible. */
    if (writer == own || !ps_cas_strong_acquire(&x_writer, &writer, own)) {
        return NULL;
    }
    enter(object);
    ps_store_release(&x_writer, 0u); /* release: as above */
    return find_known(object->identity);
}

/* True if the object of an interpreter is still loaded. */
static bool is_there(const struct ps_language_runtime *runtime, uint64_t identity) {
    struct ps_unwind_object object;
    return ps_unwind_object_find(runtime->loop, &object) && object.identity == identity;
}

struct ps_language_runtime *ps_language_of_process(bool has_made_code) {
    struct ps_language_runtime *likely = NULL;
    struct ps_language_runtime *made = NULL;
    struct ps_unwind_object object;
    for (size_t i = 0; i < RUNTIMES; i++) {
        /* acquire: pairs with enter. */
        uint64_t identity = ps_load_acquire(&runtimes[i].identity);
        if (identity == 0) {
            break;
        }
        if (is_there(&runtimes[i], identity)) {
            likely = likely != NULL ? likely : &runtimes[i];
            made = made == NULL && runtimes[i].has_frames ? &runtimes[i] : made;
        }
    }
    if (has_made_code && made == NULL && ps_java_find_object(&object)) {
        made = ps_language_of(&object);
    }
    return has_made_code && made != NULL ? made : likely;
}
