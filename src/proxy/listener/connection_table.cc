#include "proxy/listener/connection_table.h"

#include <algorithm>
#include <random>
#include <utility>

namespace sluice {

namespace {

// Bits of an id that are not time. What is left is good for 34 years of milliseconds.
constexpr unsigned kPlaceBits = 24;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kPlaceBits) - 1;

// The work of a row is mostly that of system calls, of about a microsecond; that of a connection without a row is a few
// cache misses.
constexpr size_t kVisitUnits = 1;
constexpr size_t kPeerUnits = 1;
constexpr size_t kRowUnits = 4;
constexpr size_t kStreamsInUnit = 16;

uint64_t key_of(ConnectionQuery::Sort sort, const ConnectionFacts& facts) {
  switch (sort) {
    case ConnectionQuery::Sort::kNewest:
      return 0;
    case ConnectionQuery::Sort::kMemory:
      return facts.memory_bytes;
    case ConnectionQuery::Sort::kAge:
      return ~facts.started_ms;
    case ConnectionQuery::Sort::kQueued:
      return facts.queued_bytes;
  }
  return 0;
}

// Whether `a` comes before `b`.
struct Before {
  ConnectionQuery::Sort sort;
  bool operator()(const ConnectionRow& a, const ConnectionRow& b) const {
    return is_before(key_of(sort, a.facts), a.id, b);
  }
  bool is_before(uint64_t key, uint64_t id, const ConnectionRow& b) const {
    const uint64_t other = key_of(sort, b.facts);
    return key != other ? key > other : id > b.id;
  }
};

uint64_t since(uint64_t then_ms, uint64_t now_ms) { return now_ms > then_ms ? now_ms - then_ms : 0; }

}  // namespace

// The address of a session distinguishes it from others that began in the same millisecond. It is mixed with numbers
// that nobody else knows, as addresses of memory are no concern of readers; odd factors keep different ones different.
uint64_t connection_id(const Session& session, uint64_t started_ms) {
  static const auto secret = [] {
    std::random_device random;
    return std::pair<uint64_t, uint64_t>(random() | 1U, random());
  }();
  const uint64_t place = reinterpret_cast<uintptr_t>(&session) >> 4;
  return started_ms << kPlaceBits | ((place * secret.first + secret.second) & kPlaceMask);
}

size_t ConnectionTablePart::add(const Session& session, std::string_view listener, uint64_t now_ms) {
  const ConnectionFacts facts = session.facts();
  ++open;
  size_t units = kVisitUnits + facts.streams / kStreamsInUnit;
  const uint64_t age_ms = since(facts.started_ms, now_ms);
  if (query_.listener && *query_.listener != listener) return units;
  if (query_.kind && *query_.kind != facts.kind) return units;
  if (query_.state && *query_.state != facts.state) return units;
  if (age_ms < query_.min_age_ms) return units;
  if (query_.peer) {
    units += kPeerUnits;
    if (!query_.peer->contains(session.peer().data())) return units;
  }
  const uint64_t id = connection_id(session, facts.started_ms);
  if (query_.id && *query_.id != id) return units;
  ++matching;
  if (id >= query_.after) return units;
  const Before before{query_.sort};
  if (rows.size() == query_.limit) {
    if (!before.is_before(key_of(query_.sort, facts), id, rows.front())) return units;
    std::pop_heap(rows.begin(), rows.end(), before);
    rows.pop_back();
  }
  ConnectionRow& row = rows.emplace_back();
  row.id = id;
  row.age_ms = age_ms;
  row.idle_ms = since(facts.active_ms, now_ms);
  row.worker = worker_;
  row.listener = listener;
  row.peer = session.peer();
  row.facts = facts;
  session.add_details(row.details);
  std::push_heap(rows.begin(), rows.end(), before);
  return units + kRowUnits;
}

ConnectionTable::ConnectionTable(ConnectionQuery looked_for, size_t workers) : query(std::move(looked_for)) {
  for (unsigned i = 0; i < workers; ++i) parts.push_back(std::make_unique<ConnectionTablePart>(query, i));
}

std::vector<ConnectionRow> ConnectionTable::first_rows() const {
  std::vector<ConnectionRow> all;
  for (const auto& part : parts) {
    if (part->complete.load(std::memory_order_acquire)) all.insert(all.end(), part->rows.begin(), part->rows.end());
  }
  std::sort(all.begin(), all.end(), Before{query.sort});
  if (all.size() > query.limit) all.resize(query.limit);
  return all;
}

}  // namespace sluice
