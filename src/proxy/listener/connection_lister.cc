#include "proxy/listener/connection_lister.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice {

namespace {

constexpr uint64_t kListPauseMs = 1;

}  // namespace

ConnectionLister::ConnectionLister(Worker& worker, unsigned index, VisitAcceptors visit, void* context)
    : worker_(worker),
      index_(index),
      visit_(visit),
      context_(context),
      timer_([](void* self) { static_cast<ConnectionLister*>(self)->list_some(); }, this) {}

void ConnectionLister::begin(std::shared_ptr<ConnectionTable> table) {
  table_ = std::move(table);
  visit_(context_, [](ClientAcceptor& acceptor) { acceptor.begin_listing(); });
  list_some();
}

void ConnectionLister::list_some() {
  if (table_->abandoned.load(std::memory_order_relaxed)) return table_.reset();
  const auto began = std::chrono::steady_clock::now();
  ConnectionTablePart& part = *table_->parts[index_];
  size_t units = 0;
  visit_(context_, [&](ClientAcceptor& acceptor) {
    while (units < kTurnUnits) {
      const Session* const next = acceptor.next_listed();
      if (!next) return;
      units += part.add(*next, acceptor.listener().config->name, worker_.now_ms());
    }
  });
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began);
  part.longest_turn_us = std::max(part.longest_turn_us, static_cast<uint64_t>(took.count()));
  if (units >= kTurnUnits) return worker_.timers().arm(timer_, worker_.now_ms() + kListPauseMs);
  part.complete.store(true, std::memory_order_release);
  table_.reset();
}

}  // namespace sluice
