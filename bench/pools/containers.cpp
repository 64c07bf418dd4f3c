// SPDX-License-Identifier: MIT
// Containers of std::pmr that die together. request: an HTTP request of 14 headers is cut into a
// map by name, its path and its cookies into vectors and a list of strings, a hash table counts the
// words of its query, and an answer grows in a string. frame: a game's round of 1000 particles, 300
// events in a list, 200 objects by number in a map and as many by name in a hash table, 100
// messages. Timed: making, filling and destroying the containers, and the memory's own beginning
// and end of each request or frame. A sum over the contents is checked.
#include "contest.hpp"

#include <list>
#include <map>
#include <memory_resource>
#include <poolshim/adapters.hpp>
#include <poolshim/frames.hpp>
#include <poolshim/region.hpp>
#include <poolshim/stack.hpp>
#include <scoped_allocator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr double REQUEST_COUNT = 200e3;
constexpr double FRAME_COUNT = 4e3;

struct Header {
    std::string_view name;
    std::string_view value;
};
constexpr Header HEADERS[] = {
    {"Host", "www.example.org"},
    {"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
    {"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
    {"Accept-Language", "en-GB,en;q=0.7,de;q=0.3"},
    {"Accept-Encoding", "gzip, deflate, br, zstd"},
    {"Referer", "https://www.example.org/shop/articles/by-category"},
    {"Connection", "keep-alive"},
    {"Upgrade-Insecure-Requests", "1"},
    {"Sec-Fetch-Dest", "document"},
    {"Sec-Fetch-Mode", "navigate"},
    {"Sec-Fetch-Site", "same-origin, and no other site"},
    {"If-None-Match", "5f3a0c19e24b5d8d7f3a0c19"},
    {"If-Modified-Since", "Sun, 22 Nov 2026 00:00:00 GMT"},
    {"Cache-Control", "max-age=0"},
};
constexpr std::string_view PATH[] = {"shop", "articles", "by-category", "garden-furniture",
                                     "all-that-can-be-folded"};
constexpr std::string_view WORDS[] = {"page=3",         "order=price",     "filter=wood",
                                      "filter=oiled",   "filter=foldable", "page-size=50",
                                      "colour=natural", "seats=4-and-more"};
constexpr std::string_view COOKIES[] = {"session=8d7f3a0c19e24b5d8d7f3a0c19e24b5d", "theme=dark",
                                        "visited=articles-by-category",
                                        "consent=necessary-only-2026"};

// What the containers take their memory by: Handle makes allocators.
struct Pmr {
    using Handle = std::pmr::memory_resource *;
    template <class T> using allocator = std::pmr::polymorphic_allocator<T>;
};
// Without virtual calls; elements get the allocator of their container, as with std::pmr.
struct Direct {
    using Pool = ps::no_free<ps::region_ref>;
    using Handle = ps::allocator<char, Pool>;
    template <class T> using allocator = std::scoped_allocator_adaptor<ps::allocator<T, Pool>>;
};

template <class Kit>
using String =
    std::basic_string<char, std::char_traits<char>, typename Kit::template allocator<char>>;
template <class Kit, class T> using Vector = std::vector<T, typename Kit::template allocator<T>>;
template <class Kit, class T> using List = std::list<T, typename Kit::template allocator<T>>;
template <class Kit, class Key, class T>
using Map =
    std::map<Key, T, std::less<Key>, typename Kit::template allocator<std::pair<const Key, T>>>;
template <class Kit> struct Hash {
    std::size_t operator()(const String<Kit> &text) const {
        return std::hash<std::string_view>()(text);
    }
};
template <class Kit, class T>
using Table = std::unordered_map<String<Kit>, T, Hash<Kit>, std::equal_to<String<Kit>>,
                                 typename Kit::template allocator<std::pair<const String<Kit>, T>>>;

template <class Kit> std::size_t serve_request(typename Kit::Handle memory) {
    using Text = String<Kit>;
    Map<Kit, Text, Text> headers(memory);
    Vector<Kit, Text> path(memory);
    List<Kit, Text> cookies(memory);
    Table<Kit, int> words(memory);
    for (std::string_view name : PATH) {
        path.emplace_back(name);
    }
    for (std::string_view word : WORDS) {
        words.emplace(word, 1);
    }
    for (const Header &header : HEADERS) {
        headers.emplace(header.name, header.value);
    }
    for (std::string_view cookie : COOKIES) {
        cookies.emplace_back(cookie);
    }
    Text answer("HTTP/1.1 200 OK\r\n", memory);
    for (const Text &name : path) {
        answer.append(name).append("/");
    }
    return answer.size() + headers.size() + path.size() + cookies.size() + words.size();
}

struct Particle {
    float place[3];
    float speed[3];
    unsigned age;
};

template <class Kit> std::size_t play_frame(typename Kit::Handle memory) {
    using Text = String<Kit>;
    Vector<Kit, Particle> particles(memory);
    List<Kit, unsigned> events(memory);
    Map<Kit, unsigned, Particle> objects(memory);
    Table<Kit, unsigned> named(memory);
    Vector<Kit, Text> messages(memory);
    char name[] = "object of the scene 0000";
    for (unsigned i = 0; i < 1000; i++) {
        particles.push_back({{1, 2, 3}, {0, 0, 1}, i});
        if (i % 10 < 3) {
            events.push_back(i);
        }
        if (i % 5 == 0) {
            objects.emplace(i * 2654435761U, particles.back());
            name[sizeof name - 4] = static_cast<char>('0' + i / 100);
            name[sizeof name - 3] = static_cast<char>('0' + i / 10 % 10);
            name[sizeof name - 2] = static_cast<char>('0' + i % 10);
            named.emplace(name, i);
        }
        if (i % 10 == 0) {
            messages.emplace_back("a message that does not fit into a short string");
        }
    }
    return particles.size() + events.size() + objects.size() + named.size() + messages.size();
}

// The contestants: each() runs the work with a resource and lets its memory go.
class Malloc {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        return work(std::pmr::new_delete_resource());
    }
};

class Monotonic {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        std::pmr::monotonic_buffer_resource memory;
        return work(&memory);
    }
};

// A first buffer that is reused, and is long enough: the best case of monotonic resources.
class MonotonicBuffer {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        std::pmr::monotonic_buffer_resource memory(buffer_.data(), buffer_.size());
        return work(&memory);
    }

  private:
    std::vector<char> buffer_ = std::vector<char>(256 << 10);
};

class StdPool {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) { return work(&memory_); }

  private:
    std::pmr::unsynchronized_pool_resource memory_;
};

// The resource frees the newest block, as ps::region does.
class PsRegionFrees {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        ps::region region;
        ps::resource<ps::region> memory(region);
        return work(&memory);
    }
};

class PsRegion {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        ps::region region;
        ps::no_free pool(region);
        ps::resource<decltype(pool)> memory(pool);
        return work(&memory);
    }
};

class PsRegionDirect {
  public:
    using Kit = Direct;
    template <class Work> std::size_t each(Work work) {
        ps::region region;
        ps::no_free pool(region);
        return work(Direct::Handle(pool));
    }
};

class PsFrames {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        ps::no_free pool(frames_.next());
        ps::resource<decltype(pool)> memory(pool);
        return work(&memory);
    }

  private:
    ps::frames frames_{2};
};

class PsStack {
  public:
    using Kit = Pmr;
    template <class Work> std::size_t each(Work work) {
        ps::scope scope(stack_);
        ps::no_free pool(scope);
        ps::resource<decltype(pool)> memory(pool);
        return work(&memory);
    }

  private:
    ps::stack stack_;
};

template <class Memory, class Work> double times(double count, Work work) {
    static Memory memory;
    static const std::size_t expected = memory.each(work);
    std::size_t sum = 0;
    std::size_t done = 0;
    double ms = contest::timed([&] {
        for (double i = 0; i < count; i++, done++) {
            sum += memory.each(work);
        }
    });
    if (expected < 30 || sum != done * expected) {
        contest::fail("the containers lost elements");
    }
    return ms;
}

template <class Memory> double requests(double scale) {
    return times<Memory>(REQUEST_COUNT * scale, serve_request<typename Memory::Kit>);
}

template <class Memory> double frames(double scale) {
    return times<Memory>(FRAME_COUNT * scale, play_frame<typename Memory::Kit>);
}

template <class Memory> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("containers", "request", name, requests<Memory>);
        contest::Register("containers", "frame", name, frames<Memory>);
    }
};

const Entry<Malloc> use_malloc("malloc");
const Entry<Monotonic> use_monotonic("std_monotonic");
const Entry<MonotonicBuffer> use_buffer("std_monotonic_buffer");
const Entry<StdPool> use_std_pool("std_pool");
const Entry<PsRegionFrees> use_frees("ps_region_frees");
const Entry<PsRegion> use_region("ps_region");
const Entry<PsRegionDirect> use_direct("ps_region_direct");
const Entry<PsFrames> use_frames("ps_frames");
const Entry<PsStack> use_stack("ps_stack");

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
