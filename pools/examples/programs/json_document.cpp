// SPDX-License-Identifier: MIT
// A document of JSON as a tree of values: parsed, edited, searched, dropped as a whole. The text is
// 0.3 MB of products.
//
//     malloc   std::variant of std::string and std::vector: each has a block of its own
//     pmr      the same on a monotonic resource per document, with a first buffer of 64 KiB
//     pools    a region per document: texts are std::string_view of it, arrays are vectors in it;
//              the tree is made by make_forgotten, so nothing walks it when the document ends
#include "variants.hpp"

#include <memory>
#include <memory_resource>
#include <poolshim/adapters.hpp>
#include <poolshim/region.hpp>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace {

using std::string_view;

// --- The tree
// -------------------------------------------------------------------------------------

template <class Memory> struct Member;

template <class Memory> struct Value {
    using Text = typename Memory::Text;
    using Array = typename Memory::template List<Value>;
    using Object = typename Memory::template List<Member<Memory>>;
    std::variant<std::nullptr_t, bool, double, Text, Array, Object> is;

    // The value of a member; nullptr: there is none, or this is no object.
    Value *find(string_view name) {
        auto *object = std::get_if<Object>(&is);
        for (std::size_t i = 0; object != nullptr && i < object->size(); i++) {
            if (string_view((*object)[i].name) == name) {
                return &(*object)[i].value;
            }
        }
        return nullptr;
    }
};

template <class Memory> struct Member {
    typename Memory::Text name;
    Value<Memory> value;
};

struct MallocMemory {
    using Text = std::string;
    template <class T> using List = std::vector<T>;

    Text copy(string_view text) { return Text(text); }
    template <class T> List<T> list() { return {}; }
};

class PmrMemory {
  public:
    using Text = std::pmr::string;
    template <class T> using List = std::pmr::vector<T>;

    PmrMemory() = default;
    PmrMemory(const PmrMemory &) = delete;
    Text copy(string_view text) { return Text(text, &resource_); }
    template <class T> List<T> list() { return List<T>(&resource_); }

  private:
    static constexpr std::size_t FIRST_BYTES = 65536;
    std::unique_ptr<char[]> first_{new char[FIRST_BYTES]};
    std::pmr::monotonic_buffer_resource resource_{first_.get(), FIRST_BYTES};
};

class PoolMemory {
  public:
    using Text = string_view;
    template <class T> using List = std::vector<T, ps::allocator<T, ps::no_free<ps::region_ref>>>;

    explicit PoolMemory(ps::region_ref region) : region_(region), no_free_(region) {}
    Text copy(string_view text) { return region_.copy(text); }
    template <class T> List<T> list() { return List<T>(no_free_); }

  private:
    ps::region_ref region_;
    ps::no_free<ps::region_ref> no_free_;
};

// A document: root() and memory().
template <class Memory> class Document {
  public:
    Memory &memory() { return memory_; }
    Value<Memory> &root() { return root_; }

  private:
    Memory memory_;
    Value<Memory> root_;
};

template <> class Document<PoolMemory> {
  public:
    PoolMemory &memory() { return memory_; }
    Value<PoolMemory> &root() { return *root_; }

  private:
    ps::region region_;
    PoolMemory memory_{region_};
    Value<PoolMemory> *root_ = region_.make_forgotten<Value<PoolMemory>>();
};

// --- Parsing
// --------------------------------------------------------------------------------------

// Of text that is right: what a program has made itself.
template <class Memory> class Parser {
  public:
    Parser(Memory &memory, const char *text) : memory_(memory), at_(text) {}

    Value<Memory> value(unsigned depth = 0) {
        variants::require(depth < DEPTH_MAX, "too deep");
        switch (*skip()) {
        case '{':
            return object(depth);
        case '[':
            return array(depth);
        case '"':
            return {text()};
        case 't':
            at_ += 4;
            return {true};
        case 'f':
            at_ += 5;
            return {false};
        case 'n':
            at_ += 4;
            return {nullptr};
        default:
            return {number()};
        }
    }

  private:
    static constexpr unsigned DEPTH_MAX = 100;

    const char *skip() {
        while (*at_ == ' ' || *at_ == '\n') {
            at_++;
        }
        return at_;
    }
    bool accept(char letter) {
        bool is_there = *skip() == letter;
        at_ += is_there;
        return is_there;
    }
    Value<Memory> object(unsigned depth) {
        auto members = memory_.template list<Member<Memory>>();
        at_++;
        while (!accept('}')) {
            skip();
            auto name = text();
            variants::require(accept(':'), "no colon");
            members.push_back({std::move(name), value(depth + 1)});
            accept(',');
        }
        return {std::move(members)};
    }
    Value<Memory> array(unsigned depth) {
        auto values = memory_.template list<Value<Memory>>();
        at_++;
        while (!accept(']')) {
            values.push_back(value(depth + 1));
            accept(',');
        }
        return {std::move(values)};
    }
    typename Memory::Text text() {
        const char *begin = ++at_;
        while (*at_ != '"' && *at_ != '\0') {
            at_++;
        }
        return memory_.copy(string_view(begin, static_cast<std::size_t>(at_++ - begin)));
    }
    // Up to 15 digits, so that the quotient is exact to the last one.
    double number() {
        bool is_negative = *at_ == '-';
        at_ += is_negative;
        double digits = 0;
        double unit = 1;
        for (bool is_fraction = false; *at_ == '.' || (*at_ >= '0' && *at_ <= '9'); at_++) {
            if (*at_ == '.') {
                is_fraction = true;
                continue;
            }
            digits = digits * 10 + (*at_ - '0');
            unit *= is_fraction ? 10 : 1;
        }
        return (is_negative ? -digits : digits) / unit;
    }

    Memory &memory_;
    const char *at_;
};

template <class Memory> void write(const Value<Memory> &value, std::string &out) {
    std::visit(
        [&out](const auto &is) {
            using Is = std::decay_t<decltype(is)>;
            if constexpr (std::is_same_v<Is, std::nullptr_t>) {
                out += "null";
            } else if constexpr (std::is_same_v<Is, bool>) {
                out += is ? "true" : "false";
            } else if constexpr (std::is_same_v<Is, double>) {
                char digits[32];
                std::snprintf(digits, sizeof(digits), "%.15g", is);
                out += digits;
            } else if constexpr (std::is_same_v<Is, typename Memory::Text>) {
                out.append("\"").append(is).append("\"");
            } else if constexpr (std::is_same_v<Is, typename Value<Memory>::Array>) {
                const char *before = "[";
                for (const auto &one : is) {
                    out += before;
                    write(one, out);
                    before = ",";
                }
                out += is.empty() ? "[]" : "]";
            } else {
                const char *before = "{\"";
                for (const auto &member : is) {
                    out.append(before).append(member.name).append("\":");
                    write(member.value, out);
                    before = ",\"";
                }
                out += is.empty() ? "{}" : "}";
            }
        },
        value.is);
}

// --- The work
// -------------------------------------------------------------------------------------

std::string make_text(unsigned count) {
    variants::Random random(2);
    std::string made = "[";
    for (unsigned i = 0; i < count; i++) {
        made += i == 0 ? "{\"id\":" : ",{\"id\":";
        made += std::to_string(i) + ",\"name\":\"product " + std::to_string(random.below(100000)) +
                " of the autumn list\",\"price\":" + std::to_string(1 + random.below(900)) +
                (i % 2 == 0 ? ".25" : "") + ",\"sold\":" + (i % 3 == 0 ? "true" : "false") +
                ",\"maker\":null,\"tags\":[";
        for (unsigned tag = 0, tags = random.below(6); tag < tags; tag++) {
            made += (tag == 0 ? "\"t" : ",\"t") + std::to_string(random.below(1000)) + "\"";
        }
        made += "],\"size\":{\"width\":" + std::to_string(random.below(500)) + ",\"depth\":-" +
                std::to_string(1 + random.below(500)) + "},\"text\":\"" +
                std::string(random.below(80), 'x') + "\"}";
    }
    return made + "]";
}

// Each product that is sold gets a member, as an editor of documents would add one.
template <class Memory> void edit(Memory &memory, Value<Memory> &product) {
    auto *sold = product.find("sold");
    if (sold != nullptr && std::get<bool>(sold->is)) {
        std::get<typename Value<Memory>::Object>(product.is)
            .push_back({memory.copy("state"), {memory.copy("no longer in stock")}});
    }
}

// A round is a document.
template <class Memory> std::uint64_t work(unsigned rounds) {
    const std::string text = make_text(2000);
    std::uint64_t result = 0;
    for (unsigned round = 0; round < rounds; round++) {
        Document<Memory> document;
        document.root() = Parser<Memory>(document.memory(), text.c_str()).value();
        if (round == 0) {
            std::string written;
            write(document.root(), written);
            variants::require(written == text, "the document differs from its text");
        }
        double width = 0;
        std::size_t stateful = 0;
        for (auto &product : std::get<typename Value<Memory>::Array>(document.root().is)) {
            edit(document.memory(), product);
            width += std::get<double>(product.find("size")->find("width")->is);
            stateful += product.find("state") != nullptr;
        }
        variants::require(stateful == (2000 + 2) / 3, "products that are sold");
        result = result * 31 + static_cast<std::uint64_t>(width);
    }
    return result;
}

} // namespace

int main(int argc, char **argv) {
    return variants::main(argc, argv, {work<MallocMemory>, work<PmrMemory>, work<PoolMemory>}, 2);
}
