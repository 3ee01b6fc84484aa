// Maps server names to routes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// A server-name pattern and the value that it maps to.
struct NamePattern {
  /// `a.example.com`, or `*.example.com`, whose star stands for exactly one label (RFC 9525 section 6.3). Validated
  /// before, as config::HostPattern is; case does not matter.
  std::string_view text;
  uint32_t value;  ///< The index of a route, for example.
};

/// An immutable table of server-name patterns, built at start-up. A lookup takes at most two probes of a hash table,
/// however many patterns there are, and allocates nothing.
///
///     const NameTable table(patterns);
///     const NameTable::Match match = table.find(hello.server_name());
///     if (match.best() != NameTable::kNone) use(routes[match.best()]);
class NameTable {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  /// The values of all patterns that match a name: those of the exact pattern and those of the wildcard pattern, each
  /// in the order in which they were given. Valid as long as the table. A caller with further conditions (ALPN, or
  /// routes that are tried in configuration order) iterates over both.
  struct Match {
    std::span<const uint32_t> exact;
    std::span<const uint32_t> wildcard;

    /// The first value of the exact pattern, else the first of the wildcard pattern, else kNone.
    uint32_t best() const { return !exact.empty() ? exact.front() : !wildcard.empty() ? wildcard.front() : kNone; }
  };

  NameTable() = default;
  /// Copies the patterns. A pattern may be given several times. Preconditions: each text is valid, the size of a text
  /// and the number of patterns are below 2^31, and no value is kNone.
  explicit NameTable(std::span<const NamePattern> patterns);

  /// Finds the values for `name`, which is in lower case without a trailing dot, as ClientHello::server_name() returns
  /// it. An empty name matches nothing.
  Match find(std::string_view name) const;

  /// The number of distinct patterns.
  size_t size() const { return size_; }

 private:
  // A key is an exact name, or a wildcard without its star: ".example.com". No name begins with a dot, so one table
  // holds both.
  struct Slot {
    uint32_t hash;
    uint32_t key_offset;   // Into keys_.
    uint32_t key_bytes;    // 0: the slot is free.
    uint32_t first_value;  // Into values_.
    uint32_t value_count;
  };

  const Slot* lookup(std::string_view key) const;
  Slot& slot_for(std::string_view key);
  std::string_view key_of(const Slot& slot) const { return {keys_.data() + slot.key_offset, slot.key_bytes}; }

  std::vector<Slot> slots_;  // Open addressing; the size is a power of two, at most half full.
  std::vector<char> keys_;
  std::vector<uint32_t> values_;
  size_t size_ = 0;
};

}  // namespace sluice
