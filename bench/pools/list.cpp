// SPDX-License-Identifier: MIT
// Intersec's benchmark: a linked list of 100 million blocks of 8 bytes, built and released. Stack:
// a frame per list; ring: a frame per list, released by the same thread or by another one while the
// next list is built; FIFO, pool, malloc: the list is walked and each node freed. The warm form of
// a short list, and an empty frame, are what the allocator costs without page faults. Timed:
// building and releasing together, wall clock.
#include "contest.hpp"
#include "published_intersec.hpp"

#include <poolshim/fifo.h>
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/ring.h>
#include <poolshim/stack.h>
#include <sys/mman.h>
#include <thread>

namespace {

struct Node {
    Node *next;
};

constexpr double LONG_COUNT = 100e6;
constexpr std::size_t SHORT_COUNT = 10000;
constexpr double SHORT_ROUNDS = 2000;
constexpr double FRAME_COUNT = 10e6;

template <class Pool> Node *build(Pool &pool, std::size_t count) {
    Node *head = pool.alloc();
    Node *tail = head;
    for (std::size_t i = 0; i < count; i++) {
        tail->next = pool.alloc();
        tail = tail->next;
    }
    tail->next = nullptr;
    return head;
}

template <class Pool> void free_each(Pool &pool, Node *node) {
    while (node != nullptr) {
        Node *next = node->next;
        pool.free(node);
        node = next;
    }
}

struct FloorPool {
    // A bare bump pointer over memory of the right size: what no allocator can beat.
    FloorPool()
        : base_(static_cast<char *>(mmap(nullptr, BYTES, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
        madvise(base_, BYTES, MADV_HUGEPAGE);
    }
    FloorPool(const FloorPool &) = delete;
    ~FloorPool() { munmap(base_, BYTES); }
    static constexpr std::size_t BYTES = 1 << 30;
    void begin() { next_ = base_; }
    Node *alloc() {
        Node *node = reinterpret_cast<Node *>(next_);
        next_ += sizeof(Node);
        return node;
    }
    void end(Node *) {}

  private:
    char *base_;
    char *next_ = nullptr;
};

struct MallocPool {
    void begin() {}
    Node *alloc() { return static_cast<Node *>(std::malloc(sizeof(Node))); }
    void free(Node *node) { std::free(node); }
    void end(Node *head) { free_each(*this, head); }
};

struct StackPool {
    StackPool() : stack_(ps_stack_create(nullptr)) { contest::require(stack_); }
    StackPool(const StackPool &) = delete;
    ~StackPool() { ps_stack_destroy(stack_); }
    void begin() { mark_ = ps_stack_push(stack_); }
    Node *alloc() {
        return static_cast<Node *>(ps_stack_alloc_aligned(stack_, sizeof(Node), alignof(Node)));
    }
    void end(Node *) { ps_stack_pop(stack_, mark_); }

  private:
    ps_stack *stack_;
    decltype(ps_stack_push(stack_)) mark_{};
};

struct RegionPool {
    RegionPool() : region_(ps_region_create(nullptr)) { contest::require(region_); }
    RegionPool(const RegionPool &) = delete;
    ~RegionPool() { ps_region_destroy(region_); }
    void begin() {}
    Node *alloc() {
        return static_cast<Node *>(ps_region_alloc_aligned(region_, sizeof(Node), alignof(Node)));
    }
    void end(Node *) { ps_region_reset(region_); }

  private:
    ps_region *region_;
};

struct FifoPool {
    FifoPool() : fifo_(ps_fifo_create(nullptr)) { contest::require(fifo_); }
    FifoPool(const FifoPool &) = delete;
    ~FifoPool() { ps_fifo_destroy(fifo_); }
    void begin() {}
    Node *alloc() {
        return static_cast<Node *>(ps_fifo_alloc_aligned(fifo_, sizeof(Node), alignof(Node)));
    }
    void free(Node *node) { ps_fifo_free(fifo_, node); }
    void end(Node *head) { free_each(*this, head); }

  private:
    ps_fifo *fifo_;
};

struct ObjectPool {
    ObjectPool() {
        if (!ps_pool_init(&pool_, sizeof(Node), alignof(Node), nullptr)) {
            contest::fail("no pool");
        }
    }
    ObjectPool(const ObjectPool &) = delete;
    ~ObjectPool() { ps_pool_destroy(&pool_); }
    void begin() {}
    Node *alloc() { return static_cast<Node *>(ps_pool_alloc(&pool_)); }
    void free(Node *node) { ps_pool_free(&pool_, node); }
    void end(Node *head) { free_each(*this, head); }

  private:
    ps_pool pool_;
};

struct RingPool {
    RingPool() : ring_(ps_ring_create(nullptr)) { contest::require(ring_); }
    RingPool(const RingPool &) = delete;
    ~RingPool() { ps_ring_destroy(ring_); }
    void begin() { frame_ = ps_ring_begin(ring_); }
    Node *alloc() {
        return static_cast<Node *>(ps_ring_alloc_aligned(ring_, sizeof(Node), alignof(Node)));
    }
    void end(Node *) {
        ps_ring_seal(ring_);
        ps_ring_release(frame_);
    }
    ps_ring_frame *seal() {
        ps_ring_seal(ring_);
        return frame_;
    }
    static void release(ps_ring_frame *frame) { ps_ring_release(frame); }

  private:
    ps_ring *ring_;
    ps_ring_frame *frame_ = nullptr;
};

struct AfterStack {
    void begin() { stack_.push(); }
    Node *alloc() { return static_cast<Node *>(stack_.alloc(sizeof(Node))); }
    void end(Node *) { stack_.pop(); }

  private:
    published::IntersecStack stack_;
};

struct AfterFifo {
    void begin() {}
    Node *alloc() { return static_cast<Node *>(fifo_.alloc(sizeof(Node))); }
    void free(Node *node) { fifo_.free(node); }
    void end(Node *head) { free_each(*this, head); }

  private:
    published::IntersecFifo fifo_;
};

struct AfterRing {
    void begin() { frame_ = ring_.begin(); }
    Node *alloc() { return static_cast<Node *>(ring_.alloc(sizeof(Node))); }
    published::IntersecRing::Frame *seal() {
        ring_.seal();
        return frame_;
    }
    static void release(published::IntersecRing::Frame *frame) {
        published::IntersecRing::release(frame);
    }
    void end(Node *) { release(seal()); }

  private:
    published::IntersecRing ring_;
    published::IntersecRing::Frame *frame_ = nullptr;
};

// Pools outlive their passes, so that the later ones find the memory of the first.
template <class Pool> Pool &lasting() {
    static Pool pool;
    return pool;
}

// The first node and all that the list has must still be what they were: a node that is given out
// twice makes a list of another length.
std::size_t length(const Node *node) {
    std::size_t count = 0;
    for (; node != nullptr; node = node->next) {
        count++;
    }
    return count;
}

template <class Pool> void check_list(Pool &pool) {
    constexpr std::size_t COUNT = 20000;
    for (unsigned round = 0; round < 3; round++) {
        pool.begin();
        Node *head = build(pool, COUNT);
        if (length(head) != COUNT + 1) {
            contest::fail("nodes share memory");
        }
        pool.end(head);
    }
}

template <class Pool> double long_list(double scale) {
    Pool &pool = lasting<Pool>();
    check_list(pool);
    return contest::timed([&] {
        pool.begin();
        pool.end(build(pool, static_cast<std::size_t>(LONG_COUNT * scale)));
    });
}

template <class Pool> double short_list(double scale) {
    Pool &pool = lasting<Pool>();
    return contest::timed([&] {
        for (double round = 0; round < SHORT_ROUNDS * scale; round++) {
            pool.begin();
            pool.end(build(pool, SHORT_COUNT));
        }
    });
}

template <class Pool> double frames(double scale) {
    Pool &pool = lasting<Pool>();
    return contest::timed([&] {
        for (double round = 0; round < FRAME_COUNT * scale; round++) {
            pool.begin();
            contest::keep(&pool); // else the compiler forwards what begin stores, and drops end
            pool.end(nullptr);
        }
    });
}

// Three lists, each released by a thread of its own while the next one is built: what make()
// returns does it.
template <class Make> double contended(Make make) {
    std::vector<std::thread> threads;
    return contest::timed([&] {
        for (int i = 0; i < 3; i++) {
            threads.emplace_back(make());
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    });
}

template <class Pool> double contended_ring(double scale) {
    Pool &pool = lasting<Pool>();
    return contended([&] {
        pool.begin();
        contest::keep(build(pool, static_cast<std::size_t>(LONG_COUNT * scale)));
        return [frame = pool.seal()] { Pool::release(frame); };
    });
}

double contended_malloc(double scale) {
    return contended([scale] {
        MallocPool pool;
        Node *head = build(pool, static_cast<std::size_t>(LONG_COUNT * scale));
        return [head] {
            MallocPool here;
            free_each(here, head);
        };
    });
}

template <class Pool> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("list", "long", name, long_list<Pool>);
        contest::Register("list", "short", name, short_list<Pool>);
    }
};

const Entry<FloorPool> use_floor("floor");
const Entry<MallocPool> use_malloc("malloc");
const Entry<StackPool> use_stack("ps_stack");
const Entry<RegionPool> use_region("ps_region");
const Entry<RingPool> use_ring("ps_ring");
const Entry<FifoPool> use_fifo("ps_fifo");
const Entry<ObjectPool> use_pool("ps_pool");
const contest::Register stack_frames("list", "frame", "ps_stack", frames<StackPool>);
const contest::Register ring_frames("list", "frame", "ps_ring", frames<RingPool>);
const contest::Register ring_contended("list", "contended", "ps_ring", contended_ring<RingPool>);
const Entry<AfterStack> use_after_stack("after_intersec_stack");
const Entry<AfterFifo> use_after_fifo("after_intersec_fifo");
const Entry<AfterRing> use_after_ring("after_intersec_ring");
const contest::Register after_stack_frames("list", "frame", "after_intersec_stack",
                                           frames<AfterStack>);
const contest::Register after_ring_frames("list", "frame", "after_intersec_ring",
                                          frames<AfterRing>);
const contest::Register after_contended("list", "contended", "after_intersec_ring",
                                        contended_ring<AfterRing>);
const contest::Register malloc_contended("list", "contended", "malloc", contended_malloc);

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
