/* SPDX-License-Identifier: MIT */
/*
 * A synthesizer must not call the system while it plays: its voices live in memory that was
 * allocated before the first note, and each note takes a bounded time to begin and to end.
 */
#include <poolshim/tlsf.h>
#include <stdio.h>

struct voice {
    float *samples;
    size_t sample_count;
    struct voice *next;
};

static char memory[1 << 20];

static struct voice *note_on(struct ps_tlsf *tlsf, size_t sample_count, struct voice *next) {
    struct voice *voice = ps_tlsf_alloc(tlsf, sizeof *voice);
    float *samples = ps_tlsf_alloc_aligned(tlsf, sample_count * sizeof *samples, 64);
    if (voice == NULL || samples == NULL) { /* no room: the note is not played */
        ps_tlsf_free(tlsf, voice);
        ps_tlsf_free(tlsf, samples);
        return next;
    }
    *voice = (struct voice){samples, sample_count, next};
    return voice;
}

static struct voice *note_off(struct ps_tlsf *tlsf, struct voice *voice) {
    struct voice *next = voice->next;
    ps_tlsf_free(tlsf, voice->samples);
    ps_tlsf_free(tlsf, voice);
    return next;
}

int main(void) {
    struct ps_tlsf *tlsf = ps_tlsf_init(memory, sizeof memory, NULL);
    struct voice *voices = NULL;
    for (size_t note = 0; note < 1000; note++) {
        voices = note_on(tlsf, 64 + note % 977, voices);
        if (note % 3 == 2) {
            voices = note_off(tlsf, note_off(tlsf, voices));
        }
    }
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    printf("%zu blocks, %zu bytes\n", stats.used_count, stats.used_bytes);
    while (voices != NULL) {
        voices = note_off(tlsf, voices);
    }
    ps_tlsf_stats(tlsf, &stats);
    return stats.used_count == 0 && stats.free_count == 1 && ps_tlsf_check(tlsf) == NULL ? 0 : 1;
}
