// SPDX-License-Identifier: MIT
// How many blocks of malloc an object costs: owned by a shared pointer, by one that counts inside
// of the object, and as an item of a pool. After the tutorial of boost_intrusive_pool, which traces
// them. Prints a table, and checks it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <poolshim/intrusive.hpp>
#include <utility>

namespace {

unsigned long mallocs;

} // namespace

void *operator new(std::size_t bytes) {
    mallocs++;
    void *block = std::malloc(bytes);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    return block;
}
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }

namespace {

constexpr unsigned COUNT = 1000;

struct Plain {
    char bytes[1024];
    void init(char letter) { bytes[0] = letter; }
};

struct Counted : Plain, ps::intrusive_item<> {};

// Counts inside of the object, and is deleted with its last owner.
class OwnCount : public Plain {
  public:
    void take() { count_++; }
    void drop() {
        if (--count_ == 0) {
            delete this;
        }
    }

  private:
    unsigned count_ = 0;
};

class OwnReference {
  public:
    explicit OwnReference(OwnCount *object) : object_(object) { object_->take(); }
    OwnReference(const OwnReference &other) : object_(other.object_) { object_->take(); }
    OwnReference &operator=(const OwnReference &) = delete;
    ~OwnReference() { object_->drop(); }

  private:
    OwnCount *object_;
};

// Calls make() so often, with a second reference to each object.
template <class Make> unsigned long count_of(Make make) {
    unsigned long before = mallocs;
    for (unsigned i = 0; i < COUNT; i++) {
        auto first = make();
        auto second = first;
        (void)second;
    }
    return mallocs - before;
}

} // namespace

int main() {
    ps::intrusive_pool<Counted, ps::reuse> pool;
    unsigned long counts[] = {
        count_of([] { return std::shared_ptr<Plain>(new Plain); }),
        count_of([] { return std::make_shared<Plain>(); }),
        count_of([] { return OwnReference(new OwnCount); }),
        count_of([&pool] { return pool.allocate_through_init('a'); }),
    };
    const char *const names[] = {"std::shared_ptr of new", "std::make_shared",
                                 "a counting pointer of new", "ps::intrusive_pool"};
    for (unsigned i = 0; i < 4; i++) {
        std::printf("%-26s %lu mallocs for %u objects\n", names[i], counts[i], COUNT);
    }
    bool is_right = counts[0] == 2 * COUNT && counts[1] == COUNT && counts[2] == COUNT;
    return is_right && counts[3] == 0 ? 0 : 1;
}
