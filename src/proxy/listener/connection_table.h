// A table of the connections of clients: what is looked for, and what one worker has found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/common/peer_address.h"
#include "proxy/config/model/address.h"
#include "proxy/listener/connection_facts.h"
#include "proxy/listener/session.h"

namespace sluice {

/// Which connections are looked for, and in which order.
struct ConnectionQuery {
  static constexpr size_t kDefaultLimit = 100;
  static constexpr size_t kMaxLimit = 1000;
  enum class Sort : uint8_t { kNewest, kMemory, kAge, kQueued };  ///< kAge: the oldest first.

  std::optional<std::string> listener;
  std::optional<config::Cidr> peer;
  std::optional<SessionKind> kind;
  std::optional<ConnectionState> state;
  std::optional<uint64_t> id;  ///< Only this one.
  uint64_t min_age_ms = 0;
  Sort sort = Sort::kNewest;
  size_t limit = kDefaultLimit;
  uint64_t after = UINT64_MAX;  ///< With kNewest, only those that follow the one with this id.

  bool operator==(const ConnectionQuery&) const = default;
};

/// The number of a connection among those of the process: greater for those that began later. It stays as long as the
/// connection, and is made of the time of its beginning and where it lies, so that no connection has to keep it.
uint64_t connection_id(const Session& session, uint64_t started_ms);

struct ConnectionRow {
  uint64_t id = 0;
  uint64_t age_ms = 0, idle_ms = 0;
  unsigned worker = 0;
  std::string listener;
  PeerAddress peer;
  ConnectionFacts facts;
  ConnectionDetails details;
};

/// What one worker has found. It keeps the first `limit` rows in the order of the query, whatever the number of
/// connections.
class ConnectionTablePart {
 public:
  /// `query` outlives it.
  ConnectionTablePart(const ConnectionQuery& query, unsigned worker) : query_(query), worker_(worker) {}

  /// Adds a session of a listener if it is looked for. Returns the work that this was, in the units of
  /// ConnectionLister::kTurnUnits.
  size_t add(const Session& session, std::string_view listener, uint64_t now_ms);

  // For the worker while it is at work, then for the thread that has requested the table.
  std::vector<ConnectionRow> rows;  ///< A heap, whose first is the last in the order of the query.
  uint64_t open = 0;                ///< All connections that were visited.
  uint64_t matching = 0;            ///< Of them, those that are looked for.
  uint64_t longest_turn_us = 0;     ///< The most time that the work took in one turn of the loop.

  /// The part is complete, and the worker will not touch it any more.
  std::atomic<bool> complete{false};

 private:
  const ConnectionQuery& query_;
  const unsigned worker_;
};

/// A table that all workers fill, each its own part, for one thread that has requested it.
class ConnectionTable {
 public:
  ConnectionTable(ConnectionQuery looked_for, size_t workers);

  const ConnectionQuery query;
  std::vector<std::unique_ptr<ConnectionTablePart>> parts;  ///< By worker.
  std::atomic<bool> abandoned{false};                       ///< Nobody waits for it any more.

  /// The rows of the parts that are complete, in order, at most as many as the query allows.
  std::vector<ConnectionRow> first_rows() const;
};

}  // namespace sluice
