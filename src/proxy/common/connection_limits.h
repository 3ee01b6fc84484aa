#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace sluice {

/// A limit on connections, counted over all workers. It is touched once when a connection opens and once when it
/// closes.
class ConnectionLimit {
 public:
  /// A `limit` of 0 means unlimited.
  explicit ConnectionLimit(uint32_t limit) : limit_(limit) {}

  /// Changes the limit. Connections that are counted already stay, even if they are more than that.
  void set_limit(uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  /// Counts one more connection. Returns false, without counting it, if the limit is reached.
  bool enter() {
    const uint32_t limit = limit_.load(std::memory_order_relaxed);
    if (active_.fetch_add(1, std::memory_order_relaxed) < limit || limit == 0) return true;
    leave();
    return false;
  }
  /// Counts one more connection, beyond the limit if need be.
  void enter_beyond() { active_.fetch_add(1, std::memory_order_relaxed); }
  void leave() { active_.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t active() const { return active_.load(std::memory_order_relaxed); }
  /// Whether more than half of the limit is in use.
  bool crowded() const {
    const uint32_t limit = limit_.load(std::memory_order_relaxed);
    return limit != 0 && active() > limit / 2;
  }

  /// The deleter of Place: calls leave().
  struct Leave {
    void operator()(ConnectionLimit* limit) const { limit->leave(); }
  };
  using Place = std::unique_ptr<ConnectionLimit, Leave>;
  /// Like enter(), but the returned Place calls leave() when it is destroyed. Null if the limit is reached.
  Place take_place() { return Place(enter() ? this : nullptr); }

 private:
  std::atomic<uint32_t> limit_;
  std::atomic<uint32_t> active_{0};
};

/// The source of a connection, the unit that limits apply to: an IPv4 address, or an IPv6 /64 network, which is the
/// smallest assignment to one IPv6 customer.
struct Source {
  std::array<uint8_t, 8> bytes{};
  bool ipv6 = false;

  /// Sets `source` to the source of `address`. Returns false for address families without sources (Unix sockets), which
  /// are not limited. An IPv4 address mapped into IPv6 counts as IPv4.
  static bool from(const sockaddr* address, Source& source);
  /// Sets `source` from an address in network order of 4 or 16 bytes. Returns false for any other size.
  static bool from(std::span<const uint8_t> address, Source& source);

  bool operator==(const Source&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Source& s) {
    return H::combine(std::move(h), s.bytes, s.ipv6);
  }
};

/// A limit on the connections per source, counted over all workers. A source takes memory only while it has
/// connections. The table is sharded under locks: it is used once per connection, never per byte.
class SourceLimit {
 public:
  /// A `limit` of 0 means unlimited: enabled() is false, and callers skip the table.
  explicit SourceLimit(uint32_t limit) : limit_(limit) {}

  /// Changes the limit. Sources that have more connections keep them.
  void set_limit(uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  bool enabled() const { return limit_.load(std::memory_order_relaxed) != 0; }

  struct Connections;
  /// The deleter of Place: counts one connection less, and removes a source that has none left.
  struct Leave {
    void operator()(Connections* connections) const;
  };
  using Place = std::unique_ptr<Connections, Leave>;
  /// Counts one more connection of `source`. Null if the limit is reached.
  Place take_place(const Source& source);

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::mutex mutex;
    absl::flat_hash_map<Source, std::unique_ptr<Connections>> sources;
  };
  Shard& shard(const Source& source) { return shards_[absl::Hash<Source>()(source) % kShards]; }

  std::atomic<uint32_t> limit_;
  std::array<Shard, kShards> shards_;
};

/// The connections of one source. The address of this object is stable, so that a Place is a single pointer.
struct SourceLimit::Connections {
  Shard& shard;
  const Source source;
  uint32_t active = 0;
};

}  // namespace sluice
