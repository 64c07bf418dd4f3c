/* SPDX-License-Identifier: MIT */
/*
 * See unwind.h: finds the file in which code lies. By _dl_find_object of glibc 2.35 and later,
 * which takes no lock and may be called in signal handlers; elsewhere by dl_iterate_phdr, under the
 * loader's lock.
 */
#include "shim/unwind.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "shim/loader.h"
#include "shim/unwind_head.h"

#include <elf.h>
#include <string.h>

#define INDEX_BYTES 12 /* of an index without entries */
#define MIX 0x9e3779b97f4a7c15u

/* struct dl_find_object of <dlfcn.h>, which older headers do not have. */
struct found_object {
    unsigned long long flags;
    void *start;
    void *end;
    struct link_map *map;
    void *index;
    unsigned long long reserved[10]; /* 7 are documented */
};

typedef int find_object(void *address, struct found_object *out);

static find_object *loader_find; /* NULL: there is none. Written by a constructor. */

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * MIX;
    return hash ^ hash >> 32;
}

PS_AT_START void ps_unwind_object_start(void) {
    void *function = ps_loader_find_object();
    memcpy(&loader_find, &function, sizeof loader_find);
}

/* ---- the identity of a file ---- */

/*
 * A file that was opened where another one had lain must not be taken for it. Place and length of
 * the parts tell most of them apart, the build id the versions of one library. The place of a
 * file's build id is remembered, by the address of the file, and the note there is read each time.
 */
#define NOTE_COUNT 64

struct build_id { /* a note */
    uint32_t name_bytes, text_bytes, type;
    char name[4];
    uint32_t text[5];
};

static const struct build_id build_id_head = {
    sizeof "GNU", sizeof build_id_head.text, NT_GNU_BUILD_ID, "GNU", {0}};

static PS_SPARSE uintptr_t x_notes[NOTE_COUNT]; /* addresses of notes, by hashes of their pages */

static uintptr_t *place_of_note(uintptr_t page) {
    return &x_notes[(page * MIX >> 32) % NOTE_COUNT];
}

static bool is_build_id(uintptr_t address) {
    return memcmp((const void *)address, &build_id_head, offsetof(struct build_id, text)) == 0;
}

/* The build id among notes; 0: there is none. */
static uintptr_t search_notes(uintptr_t notes, size_t bytes) {
    for (size_t at = 0; bytes - at >= sizeof(struct build_id);) { /* each round passes a header */
        ElfW(Nhdr) note;
        if (is_build_id(notes + at)) {
            return notes + at;
        }
        memcpy(&note, (const void *)(notes + at), sizeof note);
        at += sizeof note + ps_round_up((size_t)note.n_namesz, 4) +
              ps_round_up((size_t)note.n_descsz, 4);
        if (at > bytes) {
            return 0;
        }
    }
    return 0;
}

/* The build id in the first page of a file's memory; 0: there is none. */
static uintptr_t search_head(uintptr_t head) {
    ElfW(Phdr) part;
    for (size_t i = 0; ps_unwind_head_part(head, i, &part); i++) { /* ends with the page */
        bool is_near = part.p_offset < PS_UNWIND_HEAD_BYTES &&
                       part.p_filesz <= PS_UNWIND_HEAD_BYTES - part.p_offset;
        uintptr_t note = part.p_type == PT_NOTE && is_near
                             ? search_notes(head + part.p_offset, part.p_filesz)
                             : 0;
        if (note != 0) {
            return note;
        }
    }
    return 0;
}

static uint64_t identity_of(const struct ps_unwind_object *object) {
    uint64_t hash = mix(mix(object->start, object->end), (uintptr_t)object->index);
    uintptr_t *place = place_of_note(object->start);
    /* relaxed, both: the word publishes nothing else, and its target is checked. */
    uintptr_t note = ps_load_relaxed(place);
    if (note - object->start >= PS_UNWIND_HEAD_BYTES || !is_build_id(note)) {
        bool has_head = object->end - object->start >= PS_UNWIND_HEAD_BYTES;
        note = has_head ? search_head(object->start) : 0;
        if (note == 0) {
            return hash;
        }
        ps_store_relaxed(place, note);
    }
    const struct build_id *id = (const struct build_id *)note;
    hash = mix(hash, (uint64_t)id->text[0] << 32 | id->text[1]);
    return mix(hash, (uint64_t)id->text[2] << 32 | id->text[3]);
}

/* ---- without _dl_find_object ---- */

struct search {
    uintptr_t address;
    struct ps_unwind_object *out;
    bool is_found;
};

static int look_at(struct dl_phdr_info *info, size_t info_bytes, void *context) {
    struct search *search = context;
    struct ps_unwind_object object = {.start = UINTPTR_MAX};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD) {
            uintptr_t end = begin + part->p_memsz;
            search->is_found |= search->address - begin < part->p_memsz;
            object.start = begin < object.start ? begin : object.start;
            object.end = end > object.end ? end : object.end;
        } else if (part->p_type == PT_GNU_EH_FRAME && part->p_memsz >= INDEX_BYTES) {
            object.index = (const unsigned char *)begin;
        }
    }
    if (!search->is_found) {
        return 0;
    }
    object.identity = identity_of(&object);
    if (info_bytes >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        object.identity = mix(object.identity, info->dlpi_subs);
    }
    *search->out = object;
    return 1;
}

bool ps_unwind_object_find(uintptr_t address, struct ps_unwind_object *out) {
    struct found_object found;
    if (loader_find == NULL) {
        struct search search = {.address = address, .out = out};
        (void)dl_iterate_phdr(look_at, &search);
        return search.is_found;
    }
    if (loader_find((void *)address, &found) != 0) {
        return false;
    }
    *out = (struct ps_unwind_object){
        .start = (uintptr_t)found.start, .end = (uintptr_t)found.end, .index = found.index};
    out->identity = identity_of(out);
    return true;
}
