// SPDX-License-Identifier: MIT
// Stack, FIFO and ring after Intersec's articles "Memory", written anew: see published.hpp.
#ifndef PS_BENCH_POOLS_PUBLISHED_INTERSEC_HPP
#define PS_BENCH_POOLS_PUBLISHED_INTERSEC_HPP

#include "published.hpp"

#include <atomic>

namespace published {

// Frames over a chain of blocks that is reused: a frame notes the position, its end restores it. A
// new block is as long as all before it.
class IntersecStack {
  public:
    struct Frame {
        Frame *previous;
        void *block;
        char *at;
    };

    IntersecStack() : block_(new_block(FIRST_BYTES, nullptr)), at_(begin_of(block_)) {}
    IntersecStack(const IntersecStack &) = delete;
    ~IntersecStack() {
        Block *block = block_;
        while (block->previous != nullptr) {
            block = block->previous;
        }
        while (block != nullptr) {
            Block *next = block->next;
            std::free(block);
            block = next;
        }
    }

    void *alloc(std::size_t bytes, std::size_t align = 8) {
        char *at = aligned(at_, align);
        if (__builtin_expect(at + bytes > block_->end, 0)) {
            next_block(bytes + align);
            at = aligned(at_, align);
        }
        at_ = at + bytes;
        return at;
    }
    Frame *push() {
        Block *block = block_;
        char *at = at_;
        auto *frame = static_cast<Frame *>(alloc(sizeof(Frame), alignof(Frame)));
        *frame = {frame_, block, at};
        frame_ = frame;
        return frame;
    }
    void pop() {
        Frame *frame = frame_;
        block_ = static_cast<Block *>(frame->block);
        at_ = frame->at;
        frame_ = frame->previous;
    }

  private:
    struct Block {
        Block *previous;
        Block *next;
        char *end;
        std::size_t sum; // bytes of all blocks up to this one
    };
    static constexpr std::size_t FIRST_BYTES = 64 << 10;

    static char *begin_of(Block *block) { return reinterpret_cast<char *>(block + 1); }
    static Block *new_block(std::size_t bytes, Block *previous) {
        auto *block = static_cast<Block *>(taken(bytes));
        std::size_t sum = previous != nullptr ? previous->sum : 0;
        *block = {previous, nullptr, reinterpret_cast<char *>(block) + bytes, sum + bytes};
        return block;
    }
    __attribute__((noinline)) void next_block(std::size_t least) {
        do {
            if (block_->next == nullptr) {
                std::size_t bytes = least + sizeof(Block);
                block_->next = new_block(bytes > block_->sum ? bytes : block_->sum, block_);
            }
            block_ = block_->next;
        } while (static_cast<std::size_t>(block_->end - begin_of(block_)) < least);
        at_ = begin_of(block_);
    }

    Block *block_;
    char *at_;
    Frame *frame_ = nullptr;
};

// Blocks in the order of allocation in pages of 64 KiB; a page is free when as many of its blocks
// are freed as were allocated. One free page is cached. A block's head names its page.
class IntersecFifo {
  public:
    IntersecFifo() : page_(new_page()) {}
    IntersecFifo(const IntersecFifo &) = delete;
    ~IntersecFifo() {
        std::free(page_);
        std::free(spare_);
    }

    void *alloc(std::size_t bytes) {
        std::size_t taken_bytes = (bytes + sizeof(Head) + 7) & ~std::size_t(7);
        if (__builtin_expect(static_cast<std::size_t>(page_->end - page_->at) < taken_bytes, 0)) {
            next_page();
        }
        auto *head = reinterpret_cast<Head *>(page_->at);
        head->page = page_;
        page_->at += taken_bytes;
        page_->live++;
        return head + 1;
    }
    void free(void *memory) {
        Page *page = (static_cast<Head *>(memory) - 1)->page;
        if (--page->live == 0) {
            if (page == page_) {
                page->at = reinterpret_cast<char *>(page + 1);
            } else {
                drop(page);
            }
        }
    }

  private:
    struct Page {
        char *at;
        char *end;
        std::size_t live;
    };
    struct Head {
        Page *page;
    };
    static constexpr std::size_t PAGE_BYTES = 64 << 10;

    static Page *new_page() {
        auto *page = static_cast<Page *>(taken(PAGE_BYTES));
        char *begin = reinterpret_cast<char *>(page);
        *page = {begin + sizeof(Page), begin + PAGE_BYTES, 0};
        return page;
    }
    __attribute__((noinline)) void next_page() {
        Page *full = page_;
        page_ = spare_ != nullptr ? spare_ : new_page();
        spare_ = nullptr;
        if (full->live == 0) {
            drop(full);
        }
    }
    void drop(Page *page) {
        page->at = reinterpret_cast<char *>(page + 1);
        if (spare_ == nullptr) {
            spare_ = page;
        } else {
            std::free(page);
        }
    }

    Page *page_;
    Page *spare_ = nullptr;
};

// A ring of blocks with frames of one owner that any thread may release. Blocks whose frames are
// all released, which a counter per block tells, are used again, else one is inserted.
class IntersecRing {
  public:
    struct Block {
        Block *next;
        char *end;
        std::atomic<unsigned> frames;
    };
    struct Frame {
        Block *first;
        unsigned count; // blocks from the first on
    };

    IntersecRing() : block_(new_block(FIRST_BYTES)), at_(begin_of(block_)) {
        block_->next = block_;
    }
    IntersecRing(const IntersecRing &) = delete;
    // All frames are released.
    ~IntersecRing() {
        Block *block = block_->next;
        block_->next = nullptr;
        while (block != nullptr) {
            Block *next = block->next;
            std::free(block);
            block = next;
        }
    }

    Frame *begin() {
        auto *frame = static_cast<Frame *>(alloc(sizeof(Frame)));
        *frame = {block_, 1};
        block_->frames.fetch_add(1, std::memory_order_relaxed);
        frame_ = frame;
        return frame;
    }
    void *alloc(std::size_t bytes) {
        char *at = aligned(at_, 8);
        if (__builtin_expect(at + bytes > block_->end, 0)) {
            next_block(bytes);
            at = at_;
        }
        at_ = at + bytes;
        return at;
    }
    void seal() { frame_ = nullptr; }
    static void release(Frame *frame) {
        Block *block = frame->first;
        for (unsigned left = frame->count; left > 1; left--) {
            Block *next = block->next;
            block->frames.fetch_sub(1, std::memory_order_release);
            block = next;
        }
        block->frames.fetch_sub(1, std::memory_order_release); // the owner may change its next
    }

  private:
    static constexpr std::size_t FIRST_BYTES = 64 << 10;
    static constexpr std::size_t LONGEST_BYTES = 1 << 20;

    static char *begin_of(Block *block) { return reinterpret_cast<char *>(block + 1); }
    static Block *new_block(std::size_t bytes) {
        auto *block = static_cast<Block *>(taken(bytes));
        block->end = reinterpret_cast<char *>(block) + bytes;
        block->frames.store(0, std::memory_order_relaxed);
        return block;
    }
    __attribute__((noinline)) void next_block(std::size_t least) {
        Block *next = block_->next;
        bool is_free = next != block_ && next->frames.load(std::memory_order_acquire) == 0 &&
                       static_cast<std::size_t>(next->end - begin_of(next)) >= least;
        if (!is_free) {
            last_bytes_ = last_bytes_ * 2 < LONGEST_BYTES ? last_bytes_ * 2 : LONGEST_BYTES;
            std::size_t bytes = least + sizeof(Block);
            next = new_block(bytes > last_bytes_ ? bytes : last_bytes_);
            next->next = block_->next;
            block_->next = next;
        }
        block_ = next;
        at_ = begin_of(next);
        if (frame_ != nullptr) {
            block_->frames.fetch_add(1, std::memory_order_relaxed);
            frame_->count++;
        }
    }

    Block *block_;
    char *at_;
    Frame *frame_ = nullptr;
    std::size_t last_bytes_ = FIRST_BYTES;
};

} // namespace published

#endif
