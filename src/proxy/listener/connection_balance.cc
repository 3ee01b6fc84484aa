#include "proxy/listener/connection_balance.h"

#include <algorithm>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A worker hands over if it has more than the fewest, this many, and an eighth. Most short connections come and go
// within this margin, and stay where they were accepted.
constexpr uint32_t kMargin = 2;
constexpr uint32_t kMarginPart = 8;

}  // namespace

unsigned ConnectionBalance::worker_for_new(unsigned own) const {
  const auto of = [this](size_t worker) { return counts_[worker].load(std::memory_order_relaxed); };
  const uint32_t own_count = of(own);
  if (own_count <= kMargin) return own;
  size_t least = own;
  uint32_t least_count = own_count;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (const uint32_t count = of(i); count < least_count) {
      least = i;
      least_count = count;
    }
  }
  return own_count > least_count + kMargin + least_count / kMarginPart ? static_cast<unsigned>(least) : own;
}

ConnectionBalance::Member::Member(ConnectionBalance& balance, Worker& worker, Owner& owner)
    : balance_(balance), worker_(worker), owner_(owner) {
  SLUICE_CHECK(worker.index() < balance.counts_.size());
  run = [](Message& message, Worker&) { static_cast<Member&>(message).on_message(); };
}

ConnectionBalance::Member::~Member() { SLUICE_CHECK(idle()); }

void ConnectionBalance::Member::join() {
  const std::lock_guard lock(balance_.mutex_);
  balance_.members_[worker_.index()] = this;
}

void ConnectionBalance::Member::leave() {
  {
    const std::lock_guard lock(balance_.mutex_);
    balance_.members_[worker_.index()] = nullptr;
  }
  take_waiting();
}

bool ConnectionBalance::Member::idle() const {
  const std::lock_guard lock(balance_.mutex_);
  return balance_.members_[worker_.index()] != this && !notified_;
}

bool ConnectionBalance::Member::hand_over(Accepted connection) {
  const unsigned to = balance_.worker_for_new(worker_.index());
  if (to == worker_.index()) return false;
  const std::lock_guard lock(balance_.mutex_);
  Member* const member = balance_.members_[to];
  if (!member) return false;
  member->waiting_.push_back(connection);
  member->opened();
  // While it is not idle, its worker does not end.
  if (!std::exchange(member->notified_, true)) member->worker_.post(*member);
  return true;
}

void ConnectionBalance::Member::on_message() {
  {
    const std::lock_guard lock(balance_.mutex_);
    notified_ = false;
  }
  take_waiting();
}

void ConnectionBalance::Member::take_waiting() {
  {
    const std::lock_guard lock(balance_.mutex_);
    taken_.swap(waiting_);
  }
  for (const Accepted& each : taken_) {
    closed();  // The owner counts it.
    owner_.on_handed_over(each);
  }
  taken_.clear();
}

}  // namespace sluice
