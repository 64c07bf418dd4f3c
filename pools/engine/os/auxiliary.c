/* SPDX-License-Identifier: MIT */
/*
 * See auxiliary.h. The kernel places the vector after the environment's pointers; the loader of
 * glibc stores the address at which all of that begins. In a static program libc itself has its
 * address: it stores another place of the stack there.
 */
#include "pools/engine/os/auxiliary.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>

#if defined(__GLIBC__)

static void *stack_end __attribute__((weakref("__libc_stack_end")));
static ElfW(auxv_t) * vector __attribute__((weakref("_dl_auxv"))); /* of static programs alone */

static const ElfW(auxv_t) * find_vector(void) {
    if (&vector != NULL) {
        return vector;
    }
    if (&stack_end == NULL || stack_end == NULL) {
        return NULL;
    }
    /* Count, arguments, NULL, environment, NULL, vector. */
    const uintptr_t *word = stack_end;
    word += 1 + word[0] + 1;
    while (*word++ != 0) { /* ends with the environment */
    }
    return (const ElfW(auxv_t) *)word;
}

unsigned long ps_auxiliary(unsigned long type) {
    const ElfW(auxv_t) *entry = find_vector();
    for (; entry != NULL && entry->a_type != AT_NULL; entry++) { /* ends with the vector */
        if (entry->a_type == type) {
            return entry->a_un.a_val;
        }
    }
    return 0;
}

#else

unsigned long ps_auxiliary(unsigned long type) { return getauxval(type); }

#endif

/* ---- symbols ---- */

/* The tables of a dynamic section, which has addresses of the file. */
struct tables {
    uintptr_t base; /* of the image, less its address in the file */
    const char *names;
    const ElfW(Sym) * symbols;
    const uint32_t *hash;     /* the System V table; NULL: none, as of the next */
    const uint32_t *gnu_hash; /* kernels from 6.6 on have no other */
};

static bool find_tables(const char *image, struct tables *out) {
    const ElfW(Ehdr) *header = (const void *)image;
    const ElfW(Phdr) *parts = (const void *)(image + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    bool has_base = false;
    *out = (struct tables){.base = 0};
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD && !has_base) {
            out->base = (uintptr_t)image + parts[i].p_offset - parts[i].p_vaddr;
            has_base = true;
        } else if (parts[i].p_type == PT_DYNAMIC) {
            dynamic = (const void *)(image + parts[i].p_offset);
        }
    }
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) { /* ends with the section */
        const void *table = (const void *)(out->base + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) {
            out->names = table;
        } else if (dynamic->d_tag == DT_SYMTAB) {
            out->symbols = table;
        } else if (dynamic->d_tag == DT_HASH) {
            out->hash = table;
        } else if (dynamic->d_tag == DT_GNU_HASH) {
            out->gnu_hash = table;
        }
    }
    return has_base && out->names != NULL && out->symbols != NULL;
}

/* One more than the highest number of a symbol. */
static uint32_t count_symbols(const struct tables *tables) {
    if (tables->hash != NULL) {
        return tables->hash[1];
    }
    if (tables->gnu_hash == NULL) {
        return 0;
    }
    uint32_t bucket_count = tables->gnu_hash[0];
    uint32_t first = tables->gnu_hash[1];
    const uint32_t *buckets = tables->gnu_hash + 4 + tables->gnu_hash[2] * (sizeof(uintptr_t) / 4);
    const uint32_t *chains = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first) {
        return 0; /* every bucket is empty */
    }
    while ((chains[last - first] & 1) == 0) { /* ends: the last of a chain is marked */
        last++;
    }
    return last + 1;
}

static bool is_equal(const char *a, const char *b) {
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return *a == *b;
}

void *ps_auxiliary_symbol(const void *image, const char *name) {
    struct tables tables;
    if (image == NULL || !find_tables(image, &tables)) {
        return NULL;
    }
    uint32_t count = count_symbols(&tables);
    for (uint32_t i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = &tables.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 0xf) == STT_FUNC &&
            is_equal(tables.names + symbol->st_name, name)) {
            return (void *)(tables.base + symbol->st_value);
        }
    }
    return NULL;
}

void *ps_auxiliary_vdso(const char *name) {
    return ps_auxiliary_symbol((const void *)ps_auxiliary(AT_SYSINFO_EHDR), name);
}
