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
  /// `a.example.com`; `*.example.com`, whose star stands for exactly one label (RFC 9525 section 6.3); or
  /// `**.example.com`, for one label or more. Validated before, as config::HostPattern is; case does not matter.
  std::string_view text;
  uint32_t value;  ///< The index of a route, for example.
};

/// An immutable table of server-name patterns, built at start-up. A lookup takes at most two probes of a hash table,
/// however many patterns there are, and one more for each size of patterns with two stars. It allocates nothing.
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
  /// it. An empty name matches nothing. Patterns with two stars are left out.
  Match find(std::string_view name) const;
  /// Calls `visit(std::span<const uint32_t>)` with the values of each pattern that matches the name.
  template <class Visit>
  void for_each_match(std::string_view name, Visit visit) const {
    const Match match = find(name);
    if (!match.exact.empty()) visit(match.exact);
    if (!match.wildcard.empty()) visit(match.wildcard);
    if (deep_sizes_ == 0 || name.starts_with('.')) return;
    size_t labels = 1;
    for (size_t dot = name.rfind('.'); dot != std::string_view::npos; dot = name.rfind('.', dot - 1), ++labels) {
      if ((deep_sizes_ & size_bit(labels)) == 0) continue;
      if (const Slot* const slot = lookup(name.substr(dot), Kind::kDeep)) visit(values_of(*slot));
    }
  }

  /// The number of distinct patterns.
  size_t size() const { return size_; }

 private:
  // A key is an exact name, or a wildcard without its stars: ".example.com". No name begins with a dot, so one table
  // holds both.
  enum class Kind : uint8_t { kPlain, kDeep };
  struct Slot {
    uint32_t hash;
    Kind kind;
    uint32_t key_offset;   // Into keys_.
    uint32_t key_bytes;    // 0: the slot is free.
    uint32_t first_value;  // Into values_.
    uint32_t value_count;
  };

  // Names of 63 labels or more share a bit.
  static constexpr uint64_t size_bit(size_t labels) { return uint64_t{1} << (labels < 63 ? labels : 63); }

  const Slot* lookup(std::string_view key, Kind kind) const;
  Slot& slot_for(std::string_view pattern);
  std::span<const uint32_t> values_of(const Slot& slot) const {
    return std::span(values_).subspan(slot.first_value, slot.value_count);
  }
  std::string_view key_of(const Slot& slot) const { return {keys_.data() + slot.key_offset, slot.key_bytes}; }

  std::vector<Slot> slots_;  // Open addressing; the size is a power of two, at most half full.
  std::vector<char> keys_;
  std::vector<uint32_t> values_;
  size_t size_ = 0;
  uint64_t deep_sizes_ = 0;  // The numbers of labels behind the stars of patterns with two.
};

}  // namespace sluice
