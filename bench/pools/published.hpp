// SPDX-License-Identifier: MIT
// Pools that have no package, written anew from what their authors publish, for comparison: the
// algorithms are theirs, no line of code is. After nginx: its development guide and the manual of
// its pools. After TfwPool: Tempesta's articles on pools for HTTP messages. After Intersec:
// published_intersec.hpp.
#ifndef PS_BENCH_POOLS_PUBLISHED_HPP
#define PS_BENCH_POOLS_PUBLISHED_HPP

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace published {

inline void *taken(std::size_t bytes, std::size_t align = 16) {
    void *memory = align <= 16 ? std::malloc(bytes) : std::aligned_alloc(align, bytes);
    if (memory == nullptr) {
        std::abort();
    }
    return memory;
}

inline char *aligned(char *at, std::size_t align) {
    return at + ((0 - reinterpret_cast<std::uintptr_t>(at)) & (align - 1));
}

// Blocks of one length, by default 4 KiB, with the pool in the first one. What fits into a block is
// taken from the first block, from the current one on, that has room; a block that failed more than
// four times is passed over from then on. Longer requests are malloc's, on a list, whose records
// for freed ones are used again if they are among the first. Cleanups run at the end.
class Nginx {
  public:
    using Function = void (*)(void *);

    explicit Nginx(std::size_t bytes = 4096)
        : block_bytes_(bytes), first_(new_block()), current_(first_) {
        longest_ = bytes - sizeof(Block) < 4095 ? bytes - sizeof(Block) : 4095;
    }
    Nginx(const Nginx &) = delete;
    ~Nginx() {
        for (Cleanup *cleanup = cleanups_; cleanup != nullptr; cleanup = cleanup->next) {
            cleanup->function(cleanup->argument);
        }
        for (Large *large = large_; large != nullptr; large = large->next) {
            std::free(large->memory);
        }
        for (Block *block = first_; block != nullptr;) {
            Block *next = block->next;
            std::free(block);
            block = next;
        }
    }

    void *alloc(std::size_t bytes, std::size_t align = 16) {
        if (bytes > longest_) {
            return alloc_large(bytes);
        }
        for (Block *block = current_; block != nullptr; block = block->next) {
            char *at = aligned(block->at, align);
            if (at <= block->end && static_cast<std::size_t>(block->end - at) >= bytes) {
                block->at = at + bytes;
                return at;
            }
        }
        return alloc_in_new_block(bytes, align);
    }
    // Of large blocks only: others remain until the end. The list is searched for any block.
    bool free(void *memory) {
        for (Large *large = large_; large != nullptr; large = large->next) {
            if (large->memory == memory) {
                std::free(memory);
                large->memory = nullptr;
                return true;
            }
        }
        return false;
    }
    // For callers that know the length: the list is searched for large blocks only.
    bool free_sized(void *memory, std::size_t bytes) { return bytes > longest_ && free(memory); }
    void on_end(Function function, void *argument) {
        auto *cleanup = static_cast<Cleanup *>(alloc(sizeof(Cleanup), alignof(Cleanup)));
        *cleanup = {cleanups_, function, argument};
        cleanups_ = cleanup;
    }

  private:
    struct Block {
        Block *next;
        char *at;
        char *end;
        unsigned failures;
    };
    struct Large {
        Large *next;
        void *memory;
    };
    struct Cleanup {
        Cleanup *next;
        Function function;
        void *argument;
    };
    static constexpr unsigned FAILURES_MAX = 4;
    static constexpr unsigned RECORD_TRIES = 4;

    Block *new_block() {
        auto *block = static_cast<Block *>(taken(block_bytes_));
        char *begin = reinterpret_cast<char *>(block);
        *block = {nullptr, begin + sizeof(Block), begin + block_bytes_, 0};
        return block;
    }
    __attribute__((noinline)) void *alloc_in_new_block(std::size_t bytes, std::size_t align) {
        Block *added = new_block();
        char *at = aligned(added->at, align);
        added->at = at + bytes;
        Block *block = current_;
        for (; block->next != nullptr; block = block->next) {
            if (block->failures++ > FAILURES_MAX) {
                current_ = block->next;
            }
        }
        block->next = added;
        return at;
    }
    __attribute__((noinline)) void *alloc_large(std::size_t bytes) {
        void *memory = taken(bytes);
        unsigned tries = 0;
        for (Large *large = large_; large != nullptr && tries < RECORD_TRIES;
             large = large->next, tries++) {
            if (large->memory == nullptr) {
                large->memory = memory;
                return memory;
            }
        }
        auto *large = static_cast<Large *>(alloc(sizeof(Large), alignof(Large)));
        *large = {large_, memory};
        large_ = large;
        return memory;
    }

    std::size_t block_bytes_;
    std::size_t longest_;
    Block *first_;
    Block *current_;
    Large *large_ = nullptr;
    Cleanup *cleanups_ = nullptr;
};

// Chunks of whole pages, newest first, the pool's own head in the first one. An allocation moves
// the offset of the newest chunk; the newest block can be freed, and a chunk that has become empty
// by that goes back. Single pages come from a cache of the thread, of 256 here.
class Tfw {
  public:
    Tfw() : chunk_(new_chunk(PAGE, nullptr)) {}
    Tfw(const Tfw &) = delete;
    ~Tfw() {
        while (chunk_ != nullptr) {
            drop_chunk();
        }
    }

    void *alloc(std::size_t bytes, std::size_t align = 8) {
        std::size_t at = (chunk_->offset + align - 1) & ~(align - 1);
        if (__builtin_expect(at + bytes > chunk_->bytes, 0)) {
            std::size_t length = (sizeof(Chunk) + bytes + align + PAGE - 1) & ~(PAGE - 1);
            chunk_ = new_chunk(length, chunk_);
            at = (chunk_->offset + align - 1) & ~(align - 1);
        }
        chunk_->offset = at + bytes;
        return reinterpret_cast<char *>(chunk_) + at;
    }
    bool free(void *memory, std::size_t bytes) {
        char *begin = reinterpret_cast<char *>(chunk_);
        if (static_cast<char *>(memory) + bytes != begin + chunk_->offset) {
            return false;
        }
        chunk_->offset = static_cast<std::size_t>(static_cast<char *>(memory) - begin);
        if (chunk_->offset == sizeof(Chunk) && chunk_->next != nullptr) {
            drop_chunk();
        }
        return true;
    }

    // The newest block grows in place while its chunk has room.
    void *resize(void *memory, std::size_t old_bytes, std::size_t bytes) {
        char *begin = reinterpret_cast<char *>(chunk_);
        auto at = static_cast<std::size_t>(static_cast<char *>(memory) - begin);
        if (at + old_bytes == chunk_->offset && at + bytes <= chunk_->bytes) {
            chunk_->offset = at + bytes;
            return memory;
        }
        return std::memcpy(alloc(bytes), memory, old_bytes);
    }

  private:
    struct Chunk {
        Chunk *next;
        std::size_t bytes;
        std::size_t offset;
    };
    struct Cache {
        static constexpr unsigned PAGES = 256;
        void *pages[PAGES];
        unsigned count = 0;
        ~Cache() {
            while (count != 0) {
                std::free(pages[--count]);
            }
        }
    };
    static constexpr std::size_t PAGE = 4096;

    static Cache &cache() {
        static thread_local Cache pages;
        return pages;
    }
    static Chunk *new_chunk(std::size_t bytes, Chunk *next) {
        Cache &pages = cache();
        void *memory =
            bytes == PAGE && pages.count != 0 ? pages.pages[--pages.count] : taken(bytes, PAGE);
        auto *chunk = static_cast<Chunk *>(memory);
        *chunk = {next, bytes, sizeof(Chunk)};
        return chunk;
    }
    void drop_chunk() {
        Chunk *chunk = chunk_;
        chunk_ = chunk->next;
        Cache &pages = cache();
        if (chunk->bytes == PAGE && pages.count < Cache::PAGES) {
            pages.pages[pages.count++] = chunk;
        } else {
            std::free(chunk);
        }
    }

    Chunk *chunk_;
};

} // namespace published

#endif
