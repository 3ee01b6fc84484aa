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

/// Connections of one bound, counted over all workers. Touched once when a connection opens and once when it closes.
class ConnectionLimit {
 public:
  /// `limit` 0: unlimited.
  explicit ConnectionLimit(uint32_t limit) : limit_(limit) {}

  /// Counts one more, or refuses.
  bool enter() {
    if (active_.fetch_add(1, std::memory_order_relaxed) < limit_ || limit_ == 0) return true;
    leave();
    return false;
  }
  void leave() { active_.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t active() const { return active_.load(std::memory_order_relaxed); }
  /// Whether more than half of the places are taken.
  bool crowded() const { return limit_ != 0 && active() > limit_ / 2; }

  /// Leaves when it goes.
  struct Leave {
    void operator()(ConnectionLimit* limit) const { limit->leave(); }
  };
  using Place = std::unique_ptr<ConnectionLimit, Leave>;
  /// enter() for those who leave in many ways: null if refused.
  Place take_place() { return Place(enter() ? this : nullptr); }

 private:
  const uint32_t limit_;
  std::atomic<uint32_t> active_{0};
};

/// A source as limits see it: an IPv4 address, or an IPv6 /64, which is what one IPv6 customer has at the least.
struct Source {
  std::array<uint8_t, 8> bytes{};
  bool ipv6 = false;

  /// False for families without sources (Unix sockets), which are not limited. IPv4 mapped into IPv6 counts as IPv4.
  static bool from(const sockaddr* address, Source& source);
  /// Of an address in network order: 4 or 16 bytes. False for any other size.
  static bool from(std::span<const uint8_t> address, Source& source);

  bool operator==(const Source&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Source& s) {
    return H::combine(std::move(h), s.bytes, s.ipv6);
  }
};

/// Connections per source over all workers. A source costs memory only while it has connections. The table is sharded
/// under locks: it is asked once per connection, never per byte.
class SourceLimit {
 public:
  /// `limit` 0: unlimited, and nothing is kept.
  explicit SourceLimit(uint32_t limit) : limit_(limit) {}

  bool enabled() const { return limit_ != 0; }

  struct Connections;
  /// Leaves when it goes.
  struct Leave {
    void operator()(Connections* connections) const;
  };
  using Place = std::unique_ptr<Connections, Leave>;
  /// Counts one more connection of `source`; null if refused.
  Place take_place(const Source& source);

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::mutex mutex;
    absl::flat_hash_map<Source, std::unique_ptr<Connections>> sources;
  };
  Shard& shard(const Source& source) { return shards_[absl::Hash<Source>()(source) % kShards]; }

  const uint32_t limit_;
  std::array<Shard, kShards> shards_;
};

/// Those of one source. They stay where they are, so that a place is one pointer.
struct SourceLimit::Connections {
  Shard& shard;
  const Source source;
  uint32_t active = 0;
};

}  // namespace sluice
