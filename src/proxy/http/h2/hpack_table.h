#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/chunk_pool.h"

namespace sluice {

/// The largest size of both sides' dynamic tables: the protocol's default, which our SETTINGS keep (RFC 9113 section
/// 6.5.2).
inline constexpr uint32_t kHpackTableBytes = 4096;

/// The static table and a dynamic table (RFC 7541 section 2.3) of a decoder or an encoder. The entries lie in one chunk
/// of a pool, which it takes with the first one: texts from its front in the order of insertion, their places from its
/// back.
class HpackTable {
 public:
  struct Field {
    std::string_view name, value;
  };
  static constexpr size_t kStaticEntries = 61;  // RFC 7541 appendix A.

  /// The indices of the first entry of the static table with a name, and of the one with that name and a value. 0 if
  /// there is none.
  struct StaticMatch {
    uint8_t name = 0, field = 0;
  };
  static StaticMatch find_static(std::string_view name, std::string_view value);

  /// The size of an entry (RFC 7541 section 4.1).
  static constexpr size_t size_of(std::string_view name, std::string_view value) {
    return name.size() + value.size() + kOverhead;
  }

  /// Hashes of a field's name and value, by which an encoder finds it in the dynamic table.
  class Tag {
   public:
    /// Of no field.
    Tag() : name_(0), value_(0) {}
    /// `found`: what find_static() has found for the name.
    Tag(StaticMatch found, std::string_view name, std::string_view value);

   private:
    friend class HpackTable;
    uint8_t name_;  // Below 128: the index of the name in the static table. Otherwise a hash.
    uint8_t value_;
  };

  /// The field of an index, which counts from 1: the static table, then the dynamic one from its newest entry on.
  /// Nothing if there is none. Valid until the next insert() or clear().
  std::optional<Field> at(uint64_t index) const;
  /// The index of the newest entry of the dynamic table with this field, or with this name. 0 if there is none, or only
  /// one that was inserted with another tag.
  size_t find(Tag tag, std::string_view name, std::string_view value) const;
  size_t find_name(Tag tag, std::string_view name) const;
  /// Adds an entry, and evicts the oldest ones until it fits. `name` may point into the table. `tag`: for find().
  void insert(ChunkPool& pool, std::string_view name, std::string_view value, Tag tag = {});
  /// Changes the maximum size. False if it would be above kHpackTableBytes.
  bool resize(uint64_t most_bytes);
  /// Removes all entries and frees the chunk. The maximum size stays.
  void clear();

  /// The entries of the dynamic table.
  size_t size() const { return count_; }
  size_t most_bytes() const { return most_bytes_; }
  /// Whether it holds a chunk.
  bool live() const { return static_cast<bool>(chunk_); }

 private:
  struct Entry {
    uint16_t offset, name_size, value_size;
    Tag tag;
  };
  static bool has_name(const Entry& entry, Tag tag, std::string_view name, const char* texts);
  static constexpr size_t kOverhead = 32;  // RFC 7541 section 4.1.

  Entry& entry(size_t number) const {
    return *(reinterpret_cast<Entry*>(chunk_.data() + chunk_.capacity()) - 1 - number);
  }
  std::string_view name_of(const Entry& of) const { return {text(of.offset), of.name_size}; }
  std::string_view value_of(const Entry& of) const { return {text(of.offset + of.name_size), of.value_size}; }
  char* text(size_t offset) const { return reinterpret_cast<char*>(chunk_.data()) + offset; }
  void evict_above(size_t bytes);
  ChunkRef move_to_larger(ChunkPool& pool, size_t text_bytes);

  ChunkRef chunk_;
  uint16_t text_end_ = 0;  // Where the next text goes.
  uint16_t first_ = 0;     // The number of the oldest entry; those below it are evicted.
  uint16_t count_ = 0;     // Of entries from `first_` on.
  uint16_t bytes_ = 0;     // By the RFC's count.
  uint16_t most_bytes_ = kHpackTableBytes;
};

}  // namespace sluice
