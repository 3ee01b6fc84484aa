#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "pool/chunk_pool.h"

namespace sluice {

/// A place in the chunk of a Fields: what a string_view would be, but good also after the chunk has grown.
struct Text {
  uint16_t offset = 0;
  uint16_t size = 0;
};

/// Fields of a header or trailer section, in their order, and other short texts that belong to the same message: all in
/// one chunk of the pool, texts from its front, entries from its back. Names are lower case, as HTTP/2 wants them;
/// they are not looked at here.
///
///     Fields fields;
///     if (!fields.add(pool, "content-type", "text/html")) return too_large();
///     for (const Fields::Field field : fields) write(field.name, field.value);
///
/// Views stay good until the next call that is not const, and while the object is moved. Move-only.
class Fields {
 public:
  Fields() = default;
  Fields(Fields&& other) noexcept
      : chunk_(std::move(other.chunk_)),
        text_bytes_(std::exchange(other.text_bytes_, uint16_t{0})),
        count_(std::exchange(other.count_, uint16_t{0})) {}
  Fields& operator=(Fields&& other) noexcept {
    chunk_ = std::move(other.chunk_);
    text_bytes_ = std::exchange(other.text_bytes_, uint16_t{0});
    count_ = std::exchange(other.count_, uint16_t{0});
    return *this;
  }

  /// Texts and entries together: one chunk of the largest tier.
  static constexpr size_t kMaxBytes = size_t{64} * 1024;

  struct Field {
    std::string_view name, value;
    bool sensitive;  ///< Never to be put into a compression table (RFC 7541 section 7.1.3).
  };

  /// Adds a field behind the others. False, and nothing added, when kMaxBytes would be passed. Beyond the pool's budget
  /// if need be: what a peer may send is bounded elsewhere. The texts may be its own.
  [[nodiscard]] bool add(ChunkPool& pool, std::string_view name, std::string_view value, bool sensitive = false);
  /// The same, with A to Z in the name made lower case.
  [[nodiscard]] bool add_lowered(ChunkPool& pool, std::string_view name, std::string_view value);
  /// Keeps a text that is no field; the second one, if there is one, right behind the first. False as above.
  [[nodiscard]] bool keep(ChunkPool& pool, std::string_view text, Text& kept) { return keep(pool, text, {}, kept); }
  [[nodiscard]] bool keep(ChunkPool& pool, std::string_view first, std::string_view second, Text& kept);
  std::string_view text(Text kept) const {
    return kept.size == 0 ? std::string_view() : std::string_view(chars() + kept.offset, kept.size);
  }
  /// Takes a chunk that will hold `count` fields, and texts of `text_bytes` with their names and values, at once. A
  /// hint: nothing happens where it is too much, or a chunk is there already.
  void reserve(ChunkPool& pool, size_t count, size_t text_bytes);

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Precondition: index < size().
  Field operator[](size_t index) const {
    const Entry& e = entry(index);
    return {text(e.name), text(e.value), e.sensitive};
  }
  /// What it holds of the pool's memory.
  size_t held_bytes() const { return chunk_ ? chunk_.capacity() : 0; }
  /// Bytes of all texts: no less than those of all names and values.
  size_t text_bytes() const { return text_bytes_; }

  static constexpr size_t npos = static_cast<size_t>(-1);
  /// The index of the first field of this name at or behind `from`; npos if there is none.
  size_t find(std::string_view name, size_t from = 0) const;
  /// The value of the first field of this name; empty if there is none.
  std::string_view value(std::string_view name) const;
  /// Takes out one field / all fields of this name; the others keep their order. Their texts stay until clear().
  void remove(size_t index);
  size_t remove(std::string_view name);
  /// Gives back the chunk.
  void clear();

  class Iterator;
  Iterator begin() const;
  Iterator end() const;

 private:
  struct Entry {
    Text name, value;
    bool sensitive;
  };
  const char* chars() const { return reinterpret_cast<const char*>(chunk_.data()); }
  Entry* entries_end() const { return reinterpret_cast<Entry*>(chunk_.data() + chunk_.capacity()); }
  // The first entry is the last one in the chunk.
  Entry& entry(size_t index) const { return *(entries_end() - 1 - index); }
  bool make_room(ChunkPool& pool, size_t text_bytes, size_t entries, ChunkRef& old);
  ChunkRef take_chunk(ChunkPool& pool, size_t bytes);
  Text write(std::string_view text);

  ChunkRef chunk_;
  uint16_t text_bytes_ = 0;
  uint16_t count_ = 0;
};

class Fields::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Field;
  using difference_type = ptrdiff_t;
  using pointer = const Field*;
  using reference = Field;

  Iterator() = default;
  Iterator(const Fields& fields, size_t index) : fields_(&fields), index_(index) {}
  Field operator*() const { return (*fields_)[index_]; }
  Iterator& operator++() {
    ++index_;
    return *this;
  }
  Iterator operator++(int) {
    const Iterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Iterator& other) const { return index_ == other.index_; }

 private:
  const Fields* fields_ = nullptr;
  size_t index_ = 0;
};

inline Fields::Iterator Fields::begin() const { return Iterator(*this, 0); }
inline Fields::Iterator Fields::end() const { return Iterator(*this, count_); }

}  // namespace sluice
