// SPDX-License-Identifier: MIT
// Blocks of any size on memory of one's own: 2000 blocks of 16 to 1024 bytes, a random one replaced
// at each step (fit/replace), by one of 64 bytes (fit/replace_64), and blocks that grow by realloc
// while others come and go (fit/grow). TLSF guarantees a bound for each call, not the least time;
// malloc and the standard library's pool resource are what one would take without the bound. Timed:
// the loop, after the table is filled.
#include "contest.hpp"

#include <memory_resource>
#include <poolshim/tlsf.h>

#if __has_include(<tlsf.h>)
#include <tlsf.h>
#endif

namespace {

constexpr std::size_t SLOT_COUNT = 2000;
constexpr double STEP_COUNT = 5e6;
constexpr std::size_t GROW_LIMIT = 4096;
constexpr std::size_t ROOM = 64 << 20;

std::uint64_t random_step(std::uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

class Tlsf {
  public:
    Tlsf() : memory_(ROOM), tlsf_(ps_tlsf_init(memory_.data(), memory_.size(), nullptr)) {
        contest::require(tlsf_);
    }
    void *alloc(std::size_t bytes) { return ps_tlsf_alloc(tlsf_, bytes); }
    void free(void *block, std::size_t) { ps_tlsf_free(tlsf_, block); }
    void *grow(void *block, std::size_t, std::size_t bytes) {
        return ps_tlsf_realloc(tlsf_, block, bytes);
    }

  private:
    std::vector<char> memory_;
    ps_tlsf *tlsf_;
};

#if __has_include(<tlsf.h>)
// The original: no memory but its own, no check of what it reads there.
class ConteTlsf {
  public:
    ConteTlsf() : memory_(ROOM), tlsf_(tlsf_create_with_pool(memory_.data(), memory_.size())) {
        contest::require(tlsf_);
    }
    void *alloc(std::size_t bytes) { return tlsf_malloc(tlsf_, bytes); }
    void free(void *block, std::size_t) { tlsf_free(tlsf_, block); }
    void *grow(void *block, std::size_t, std::size_t bytes) {
        return tlsf_realloc(tlsf_, block, bytes);
    }

  private:
    std::vector<char> memory_;
    tlsf_t tlsf_;
};
#endif

class Malloc {
  public:
    void *alloc(std::size_t bytes) { return std::malloc(bytes); }
    void free(void *block, std::size_t) { std::free(block); }
    void *grow(void *block, std::size_t, std::size_t bytes) { return std::realloc(block, bytes); }
};

class StdPool {
  public:
    void *alloc(std::size_t bytes) { return resource_.allocate(bytes); }
    void free(void *block, std::size_t bytes) { resource_.deallocate(block, bytes); }
    void *grow(void *block, std::size_t old_bytes, std::size_t bytes) {
        void *copy = resource_.allocate(bytes);
        std::memcpy(copy, block, std::min(old_bytes, bytes));
        resource_.deallocate(block, old_bytes);
        return copy;
    }

  private:
    std::pmr::unsynchronized_pool_resource resource_;
};

struct Slot {
    void *block;
    std::size_t bytes;
};

template <class Source> std::vector<Slot> filled(Source &source, std::uint64_t &state) {
    std::vector<Slot> slots(SLOT_COUNT);
    for (Slot &slot : slots) {
        slot.bytes = 16 + random_step(state) % 1009;
        slot.block = source.alloc(slot.bytes);
        contest::require(slot.block);
    }
    return slots;
}

template <class Source> void empty(Source &source, std::vector<Slot> &slots) {
    for (Slot &slot : slots) {
        source.free(slot.block, slot.bytes);
    }
}

// Times step(source, slot, draw) on random slots.
template <class Source, class Step> double steps(double scale, Step step) {
    Source source;
    std::uint64_t state = 88172645463325252u;
    std::vector<Slot> slots = filled(source, state);
    double ms = contest::timed([&] {
        for (double i = 0; i < STEP_COUNT * scale; i++) {
            std::uint64_t draw = random_step(state);
            step(source, slots[(draw >> 32) % SLOT_COUNT], draw);
        }
    });
    empty(source, slots);
    return ms;
}

template <class Source> double replace(double scale) {
    return steps<Source>(scale, [](Source &source, Slot &slot, std::uint64_t draw) {
        source.free(slot.block, slot.bytes);
        slot.bytes = 16 + draw % 1009;
        slot.block = source.alloc(slot.bytes);
        contest::require(slot.block);
        *static_cast<char *>(slot.block) = 1;
    });
}

// Every block of 64 bytes: what splitting and merging cost where a list would do.
template <class Source> double replace_64(double scale) {
    return steps<Source>(scale, [](Source &source, Slot &slot, std::uint64_t) {
        source.free(slot.block, slot.bytes);
        slot.bytes = 64;
        slot.block = source.alloc(slot.bytes);
        contest::require(slot.block);
        *static_cast<char *>(slot.block) = 1;
    });
}

template <class Source> double grow(double scale) {
    return steps<Source>(scale, [](Source &source, Slot &slot, std::uint64_t) {
        std::size_t bytes = slot.bytes < GROW_LIMIT ? slot.bytes + slot.bytes / 2 : 16;
        slot.block = source.grow(slot.block, slot.bytes, bytes);
        slot.bytes = bytes;
        contest::require(slot.block);
    });
}

template <class Source> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("fit", "replace", name, replace<Source>);
        contest::Register("fit", "replace_64", name, replace_64<Source>);
        contest::Register("fit", "grow", name, grow<Source>);
    }
};

const Entry<Tlsf> use_tlsf("ps_tlsf");
const Entry<Malloc> use_malloc("malloc");
const Entry<StdPool> use_std("std_pool");
#if __has_include(<tlsf.h>)
const Entry<ConteTlsf> use_conte("conte_tlsf");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
