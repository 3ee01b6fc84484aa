#include "proxy/rate_limit/body_pacer.h"

#include <algorithm>

#include "net/worker.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "sluice/internal/check.h"

namespace sluice {

BodyPacer::BodyPacer(Worker& worker, const Bandwidth& limits, Turn turn, void* context)
    : worker_(worker), limits_(limits), timer_(turn, context), soon_(turn, context) {}

BodyPacer::~BodyPacer() { stop(); }

void BodyPacer::add(Buffer&& bytes, bool end) {
  waiting_.append(std::move(bytes));
  ends_ = end;
}

void BodyPacer::add_trailers(Fields&& trailers) {
  trailers_ = std::move(trailers);
  ends_ = true;
}

void BodyPacer::charge(size_t bytes) { (void)limits_.reserve(bytes, worker_.now_us()); }

bool BodyPacer::ready() {
  if (timer_.armed()) return false;
  if (waiting_.empty()) return ends_;
  if (reserved_ > 0) return true;
  reserved_ = std::min(waiting_.size(), limits_.piece_bytes());
  const uint64_t now_us = worker_.now_us();
  const uint64_t wait_ns = limits_.reserve(reserved_, now_us);
  if (wait_ns == 0) return true;
  has_waited_ = true;
  worker_.timers().arm(timer_, rate_turn_ms(now_us, wait_ns));
  return false;
}

BodyPacer::Piece BodyPacer::take() {
  SLUICE_DCHECK(!timer_.armed() && (reserved_ > 0 || ends_));
  Piece piece{waiting_.split_front(std::exchange(reserved_, 0))};
  if (waiting_.empty()) piece.end = std::exchange(ends_, false);
  return piece;
}

void BodyPacer::call_soon() { worker_.yielding_tasks().push(soon_); }

void BodyPacer::stop() {
  timer_.cancel();
  soon_.cancel();
  if (reserved_ > 0) limits_.give_back(std::exchange(reserved_, 0), worker_.now_us());
  waiting_.clear();
  trailers_.clear();
  ends_ = false;
}

}  // namespace sluice
