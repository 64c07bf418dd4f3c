/* SPDX-License-Identifier: MIT */
/*
 * See language.h: symbols of a loaded object, by its program headers and the hash table of its
 * dynamic symbols, as the loader finds them, but without the loader's locks. The object has code on
 * the stack of the calling thread, so that it is not unloaded meanwhile. Its tables are checked
 * against its memory. No state.
 */
#include "shim/language.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/auxiliary.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define HEAD_BYTES 4096 /* with the program headers */
#define DYNAMIC_LIMIT 256
#define CHAIN_LIMIT 4096
#define HASH_SEED 5381

/* The header of the hash table; then a word for each of `bloom_words`, the buckets, the chains. */
struct hash_head {
    uint32_t bucket_count, first_symbol, bloom_words, bloom_shift;
};

/* The older one: then a word for each bucket, and for each symbol the next one of its bucket. */
struct old_hash_head {
    uint32_t bucket_count, symbol_count;
};

static bool is_inside(const struct ps_language_object *object, uintptr_t address, size_t bytes) {
    return address >= object->start && address <= object->end && bytes <= object->end - address;
}

/* Some loaders relocate the addresses in the dynamic section, others do not. */
static uintptr_t address_of(const struct ps_language_object *object, uintptr_t value) {
    return value >= object->start ? value : value + object->bias;
}

static void read_entry(struct ps_language_object *object, const ElfW(Dyn) * entry) {
    uintptr_t value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) {
        object->symbols = address_of(object, value);
    } else if (entry->d_tag == DT_STRTAB) {
        object->strings = address_of(object, value);
    } else if (entry->d_tag == DT_STRSZ) {
        object->string_bytes = value;
    } else if (entry->d_tag == DT_GNU_HASH) {
        object->hash = address_of(object, value);
    } else if (entry->d_tag == DT_HASH) {
        object->old_hash = address_of(object, value);
    }
}

static bool read_dynamic(struct ps_language_object *object, uintptr_t at) {
    for (size_t i = 0; i < DYNAMIC_LIMIT; i++, at += sizeof(ElfW(Dyn))) {
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)at;
        if (!is_inside(object, at, sizeof *entry) || entry->d_tag == DT_NULL) {
            break;
        }
        read_entry(object, entry);
    }
    return is_inside(object, object->strings, object->string_bytes) &&
           is_inside(object, object->symbols, sizeof(ElfW(Sym))) &&
           (is_inside(object, object->hash, sizeof(struct hash_head)) ||
            is_inside(object, object->old_hash, sizeof(struct old_hash_head)));
}

/* The program headers of an object. */
struct parts {
    const ElfW(Phdr) * first;
    size_t count;
};

/* Those in the first page of its memory. False: it has none there. */
static bool find_parts(const struct ps_unwind_object *from, struct parts *out) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)from->start;
    if (from->end - from->start < HEAD_BYTES || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_phoff > HEAD_BYTES - header->e_phnum * sizeof(ElfW(Phdr))) {
        return false;
    }
    *out = (struct parts){(const ElfW(Phdr) *)(from->start + header->e_phoff), header->e_phnum};
    return true;
}

/* The loader finds one part of a program that has holes between its parts; the kernel tells the
 * others. False: it is no part of the program. */
static bool find_program(const struct ps_unwind_object *from, struct ps_language_object *out,
                         struct parts *parts) {
    *parts = (struct parts){(const ElfW(Phdr) *)(uintptr_t)ps_auxiliary(AT_PHDR),
                            (size_t)ps_auxiliary(AT_PHNUM)};
    uintptr_t bias = 0;
    uintptr_t lowest = UINTPTR_MAX;
    uintptr_t highest = 0;
    for (size_t i = 0; parts->first != NULL && i < parts->count; i++) {
        const ElfW(Phdr) *part = &parts->first[i];
        if (part->p_type == PT_PHDR) {
            bias = (uintptr_t)parts->first - part->p_vaddr;
        } else if (part->p_type == PT_LOAD) {
            lowest = ps_min(lowest, part->p_vaddr);
            highest = ps_max(highest, part->p_vaddr + part->p_memsz);
        }
    }
    out->start = lowest + bias;
    return from->start - out->start < highest - lowest;
}

bool ps_language_object_open(const struct ps_unwind_object *from, struct ps_language_object *out) {
    struct parts parts;
    *out = (struct ps_language_object){.start = from->start, .end = from->end};
    if (!find_parts(from, &parts) && !find_program(from, out, &parts)) {
        return false;
    }
    uintptr_t dynamic = 0;
    uintptr_t lowest = UINTPTR_MAX;
    uintptr_t highest = 0;
    for (size_t i = 0; i < parts.count; i++) {
        const ElfW(Phdr) *part = &parts.first[i];
        if (part->p_type == PT_LOAD) {
            lowest = ps_min(lowest, part->p_vaddr);
            highest = ps_max(highest, part->p_vaddr + part->p_memsz);
        } else if (part->p_type == PT_DYNAMIC) {
            dynamic = part->p_vaddr;
        }
    }
    out->bias = out->start - ps_round_down(lowest, HEAD_BYTES);
    out->end = out->bias + highest; /* that of `from` may be the end of its first part */
    return dynamic != 0 && read_dynamic(out, dynamic + out->bias);
}

static uint32_t hash_of(const char *name) {
    uint32_t hash = HASH_SEED;
    for (; *name != '\0'; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

/* True if the symbol has the name, and is defined in the object. */
static bool is_symbol(const struct ps_language_object *object, size_t index, const char *name,
                      struct ps_language_symbol *out) {
    uintptr_t at = object->symbols + index * sizeof(ElfW(Sym));
    size_t bytes = strlen(name) + 1;
    if (!is_inside(object, at, sizeof(ElfW(Sym)))) {
        return false;
    }
    const ElfW(Sym) *symbol = (const ElfW(Sym) *)at;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_name > object->string_bytes ||
        object->string_bytes - symbol->st_name < bytes ||
        memcmp((const char *)object->strings + symbol->st_name, name, bytes) != 0) {
        return false;
    }
    *out = (struct ps_language_symbol){object->bias + symbol->st_value, symbol->st_size};
    return is_inside(object, out->address, out->bytes);
}

static uint32_t old_hash_of(const char *name) {
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    return hash;
}

static bool find_by_old_hash(const struct ps_language_object *object, const char *name,
                             struct ps_language_symbol *out) {
    const struct old_hash_head *head = (const struct old_hash_head *)object->old_hash;
    const uint32_t *buckets = (const uint32_t *)(head + 1);
    size_t words = (size_t)head->bucket_count + head->symbol_count;
    if (head->bucket_count == 0 ||
        !is_inside(object, (uintptr_t)buckets, words * sizeof(uint32_t))) {
        return false;
    }
    const uint32_t *chains = buckets + head->bucket_count;
    size_t index = buckets[old_hash_of(name) % head->bucket_count];
    for (size_t i = 0; i < CHAIN_LIMIT && index != 0 && index < head->symbol_count; i++) {
        if (is_symbol(object, index, name, out)) {
            return true;
        }
        index = chains[index];
    }
    return false;
}

static bool find_by_hash(const struct ps_language_object *object, const char *name,
                         struct ps_language_symbol *out) {
    const struct hash_head *head = (const struct hash_head *)object->hash;
    uintptr_t buckets = object->hash + sizeof *head + head->bloom_words * sizeof(uintptr_t);
    uintptr_t chains = buckets + head->bucket_count * sizeof(uint32_t);
    uint32_t hash = hash_of(name);
    if (head->bucket_count == 0 || !is_inside(object, buckets, chains - buckets)) {
        return false;
    }
    size_t index = ((const uint32_t *)buckets)[hash % head->bucket_count];
    for (size_t i = 0; i < CHAIN_LIMIT && index >= head->first_symbol; i++, index++) {
        uintptr_t at = chains + (index - head->first_symbol) * sizeof(uint32_t);
        if (!is_inside(object, at, sizeof(uint32_t))) {
            return false;
        }
        uint32_t value = *(const uint32_t *)at;
        if ((value | 1) == (hash | 1) && is_symbol(object, index, name, out)) {
            return true;
        }
        if ((value & 1) != 0) { /* the last of its bucket */
            return false;
        }
    }
    return false;
}

bool ps_language_object_find(const struct ps_language_object *object, const char *name,
                             struct ps_language_symbol *out) {
    return object->hash != 0 ? find_by_hash(object, name, out)
                             : find_by_old_hash(object, name, out);
}
