#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "sluice/chunk_pool.h"

namespace sluice {

/// A position in the chunk of a Fields object. Like a string_view, but it stays valid when the chunk grows.
struct Text {
  uint16_t offset = 0;
  uint16_t size = 0;
};

/// The fields of a header or trailer section, in order, together with other short texts of the same message. All of it
/// lies in one chunk of the pool: texts from its front, entries from its back. Names must be lower case, as HTTP/2
/// requires; this class does not check that.
///
///     Fields fields;
///     if (!fields.add(pool, "content-type", "text/html")) return too_large();
///     for (const Fields::Field field : fields) write(field.name, field.value);
///
/// Views stay valid until the next call of a non-const function; moving the object keeps them valid. Move-only.
class Fields {
 public:
  Fields() = default;
  Fields(Fields&& other) noexcept
      : chunk_(std::move(other.chunk_)),
        text_bytes_(std::exchange(other.text_bytes_, uint16_t{0})),
        count_(std::exchange(other.count_, uint16_t{0})),
        name_sizes_(std::exchange(other.name_sizes_, 0)) {}
  Fields& operator=(Fields&& other) noexcept {
    chunk_ = std::move(other.chunk_);
    text_bytes_ = std::exchange(other.text_bytes_, uint16_t{0});
    count_ = std::exchange(other.count_, uint16_t{0});
    name_sizes_ = std::exchange(other.name_sizes_, 0);
    return *this;
  }

  /// The limit for texts and entries together: one chunk of the largest tier.
  static constexpr size_t kMaxBytes = size_t{64} * 1024;

  /// What is known of a field. None of it: `{}`.
  struct Traits {
    bool sensitive;  ///< Must never enter a compression table (RFC 7541 section 7.1.3).
    /// Either version of HTTP can send it as it is: its reader has checked that the name is a token, that the value is
    /// field text, and that no codec writes this field itself or leaves it out (http1::is_ordinary()).
    bool ordinary;
  };
  struct Field {
    std::string_view name, value;
    Traits traits;
  };

  /// Appends a field. Returns false and adds nothing if that would exceed kMaxBytes. Goes beyond the pool's budget if
  /// need be: what a peer may send is bounded elsewhere. The arguments may be views into this object.
  [[nodiscard]] bool add(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits = {});
  /// Like add(), but converts A to Z in the name to lower case.
  [[nodiscard]] bool add_lowered(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits = {});
  /// Stores a text that is not a field. `second`, if given, directly follows `first`. Returns false as add() does.
  [[nodiscard]] bool keep(ChunkPool& pool, std::string_view text, Text& kept) { return keep(pool, text, {}, kept); }
  [[nodiscard]] bool keep(ChunkPool& pool, std::string_view first, std::string_view second, Text& kept);
  std::string_view text(Text kept) const {
    return kept.size == 0 ? std::string_view() : std::string_view(chars() + kept.offset, kept.size);
  }
  /// Takes a chunk with room for `count` fields whose names and values total `text_bytes`. A hint: it does nothing if
  /// that is too much or a chunk already exists.
  void reserve(ChunkPool& pool, size_t count, size_t text_bytes);

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Precondition: index < size().
  Field operator[](size_t index) const {
    const Entry& e = entry(index);
    return {text(e.name), text(e.value), e.traits};
  }
  /// Memory that it holds in the pool.
  size_t held_bytes() const { return chunk_ ? chunk_.capacity() : 0; }
  /// Bytes of all texts: at least those of all names and values.
  size_t text_bytes() const { return text_bytes_; }

  static constexpr size_t npos = static_cast<size_t>(-1);
  /// The index of the first field of this name at or after `from`; npos if there is none.
  size_t find(std::string_view name, size_t from = 0) const {
    return (name_sizes_ & size_bit(name)) == 0 ? npos : search(name, from);
  }
  /// Where a field's value is; it stays there when the field is removed. Precondition: index < size().
  Text value_text(size_t index) const { return entry(index).value; }
  /// The value of the first field of this name; empty if there is none.
  std::string_view value(std::string_view name) const;
  /// Removes one field, or all fields of this name and returns their number. The others keep their order. The removed
  /// texts occupy the chunk until clear().
  void remove(size_t index);
  size_t remove(std::string_view name);
  /// Removes everything and frees the chunk.
  void clear();

  class Iterator;
  Iterator begin() const;
  Iterator end() const;

 private:
  struct Entry {
    Text name, value;
    Traits traits;
  };
  static uint32_t size_bit(std::string_view name) { return uint32_t{1} << (name.size() % 32); }
  size_t search(std::string_view name, size_t from) const;
  const char* chars() const { return reinterpret_cast<const char*>(chunk_.data()); }
  Entry* entries_end() const { return reinterpret_cast<Entry*>(chunk_.data() + chunk_.capacity()); }
  // Entries are stored in reverse: the first one is the last in the chunk.
  Entry& entry(size_t index) const { return *(entries_end() - 1 - index); }
  bool has_room(size_t text_bytes, size_t entries) const {
    return chunk_ && text_bytes_ + text_bytes + (count_ + entries) * sizeof(Entry) < chunk_.capacity();
  }
  bool append(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits);
  bool make_room(ChunkPool& pool, size_t text_bytes, size_t entries, ChunkRef& old);
  ChunkRef take_chunk(ChunkPool& pool, size_t bytes);
  Text write(std::string_view text);

  ChunkRef chunk_;
  uint16_t text_bytes_ = 0;
  uint16_t count_ = 0;
  uint32_t name_sizes_ = 0;  // The bits of the sizes of all names, and perhaps of removed ones.
};

class Fields::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Field;
  using difference_type = ptrdiff_t;
  using pointer = const Field*;
  using reference = Field;

  Iterator() = default;
  Field operator*() const {
    const Entry& entry = at_[-1];
    return {
        {chars_ + entry.name.offset, entry.name.size}, {chars_ + entry.value.offset, entry.value.size}, entry.traits};
  }
  Iterator& operator++() {
    --at_;
    return *this;
  }
  Iterator operator++(int) {
    const Iterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Iterator& other) const { return at_ == other.at_; }

 private:
  friend class Fields;
  Iterator(const char* chars, const Entry* at) : chars_(chars), at_(at) {}

  const char* chars_ = nullptr;
  const Entry* at_ = nullptr;  // Behind its entry, since entries are stored in reverse.
};

inline Fields::Iterator Fields::begin() const { return chunk_ ? Iterator(chars(), entries_end()) : Iterator(); }
inline Fields::Iterator Fields::end() const { return chunk_ ? Iterator(chars(), entries_end() - count_) : Iterator(); }

}  // namespace sluice
