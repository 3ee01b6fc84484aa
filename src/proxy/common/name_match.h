// Which routes a server name leads to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// A pattern and what it stands for.
struct NamePattern {
  /// `a.example.com`, or `*.example.com`, whose star stands for exactly one label (RFC 9525 section 6.3). Already
  /// validated, as config::HostPattern is; case does not matter.
  std::string_view text;
  uint32_t value;  ///< The index of a route, for example.
};

/// An immutable table of server-name patterns. It is built at start-up; a lookup takes at most two probes of a hash
/// table, however many patterns there are, and allocates nothing.
///
///     const NameTable table(patterns);
///     const NameTable::Match match = table.find(hello.server_name());
///     if (match.best() != NameTable::kNone) use(routes[match.best()]);
class NameTable {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  /// All values whose pattern fits a name: those of the exact pattern and those of the wildcard pattern, each in the
  /// order in which they were given. Valid as long as the table. A caller with further conditions (ALPN, or routes that
  /// are tried in the order of the configuration) looks through both.
  struct Match {
    std::span<const uint32_t> exact;
    std::span<const uint32_t> wildcard;

    /// The first value of the exact pattern, else of the wildcard, else kNone.
    uint32_t best() const { return !exact.empty() ? exact.front() : !wildcard.empty() ? wildcard.front() : kNone; }
  };

  NameTable() = default;
  /// Copies what it needs. One pattern may be given several times. Preconditions: each text is valid, its size and the
  /// number of patterns are below 2^31, and no value is kNone.
  explicit NameTable(std::span<const NamePattern> patterns);

  /// `name` in lower case without a dot at its end, as ClientHello::server_name() gives it; an empty one fits nothing.
  Match find(std::string_view name) const;

  /// Distinct patterns.
  size_t size() const { return size_; }

 private:
  // A key is an exact name, or a wildcard without its star: ".example.com". No name begins with a dot, so one table
  // holds both.
  struct Slot {
    uint32_t hash;
    uint32_t key_offset;   // In keys_.
    uint32_t key_bytes;    // 0: the slot is free.
    uint32_t first_value;  // In values_.
    uint32_t value_count;
  };

  const Slot* lookup(std::string_view key) const;
  Slot& slot_for(std::string_view key);
  std::string_view key_of(const Slot& slot) const { return {keys_.data() + slot.key_offset, slot.key_bytes}; }

  std::vector<Slot> slots_;  // Open addressing; a power of two, at most half full.
  std::vector<char> keys_;
  std::vector<uint32_t> values_;
  size_t size_ = 0;
};

}  // namespace sluice
