#include "proxy/upstream/ejections.h"

#include <algorithm>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/model/units.h"
#include "proxy/upstream/endpoint_log.h"

namespace sluice {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Loads first, so that the cache line stays shared among the workers while there are no errors.
void clear(std::atomic<uint32_t>& count) {
  if (count.load(kRelaxed) != 0) count.store(0, kRelaxed);
}

}  // namespace

void Ejections::on_response(size_t endpoint, uint32_t status, uint64_t now_ms) {
  if (!is_endpoint_error(status)) return on_success(endpoint);
  EndpointHealth& health = slots_.state(endpoint).health;
  const Error error{.now_ms = now_ms, .status = status};
  const bool gateway = status == 502 || status == 503 || status == 504;
  if (gateway) {
    count(health.gateway_errors_in_a_row, config_->gateway_errors, endpoint, "gateway error", error);
  } else {
    clear(health.gateway_errors_in_a_row);
  }
  count(health.errors_in_a_row, config_->consecutive_errors, endpoint, "error", error);
}

void Ejections::on_success(size_t endpoint) {
  EndpointHealth& health = slots_.state(endpoint).health;
  clear(health.errors_in_a_row);
  clear(health.gateway_errors_in_a_row);
}

void Ejections::on_error(size_t endpoint, uint64_t now_ms, std::string_view why) {
  EndpointHealth& health = slots_.state(endpoint).health;
  const Error error{.now_ms = now_ms, .why = why};
  count(health.gateway_errors_in_a_row, config_->gateway_errors, endpoint, "gateway error", error);
  count(health.errors_in_a_row, config_->consecutive_errors, endpoint, "error", error);
}

void Ejections::count(std::atomic<uint32_t>& in_a_row, uint32_t limit, size_t endpoint, const char* what,
                      const Error& error) {
  if (limit == 0) return;
  // Ignores errors of an ejected endpoint: from earlier requests, or because all endpoints are out.
  if (slots_.state(endpoint).health.ejected_until_ms.load(kRelaxed) != 0) return;
  const uint32_t errors = in_a_row.fetch_add(1, kRelaxed) + 1;
  if (errors >= limit) eject(endpoint, errors, what, error);
}

// One worker at a time, so that no more endpoints than allowed are ejected. A concurrent caller leaves the ejection to
// the next error.
void Ejections::eject(size_t endpoint, uint32_t errors, const char* what, const Error& error) {
  const uint64_t now_ms = error.now_ms;
  if (ejecting_.test_and_set(std::memory_order_acquire)) return;
  const absl::Cleanup done = [this] { ejecting_.clear(std::memory_order_release); };
  EndpointHealth& health = slots_.state(endpoint).health;
  if (health.ejected_until_ms.load(kRelaxed) != 0) return;  // Another worker ejected it first.
  if (!may_eject(endpoint, now_ms)) {
    refused_.fetch_add(1, kRelaxed);
    return;
  }
  const uint64_t time_ms = next_time_ms(endpoint, now_ms);
  health.ejections_in_a_row.store(static_cast<uint32_t>(time_ms / config::milliseconds(config_->time)), kRelaxed);
  health.ejections.fetch_add(1, kRelaxed);
  on_success(endpoint);  // Errors after the ejection count from 0.
  health.ejected_since_ms.store(now_ms, kRelaxed);
  health.ejected_until_ms.store(now_ms + time_ms);
  return_at(now_ms + time_ms);
  slots_.note_health_change();
  const std::string last = error.status != 0 ? absl::StrCat("status ", error.status) : std::string(error.why);
  log_endpoint(slots_, endpoint, now_ms,
               absl::StrCat("is ejected for ", config::print_duration(config::Duration(time_ms)), ", after ", errors,
                            " ", what, errors == 1 ? "" : "s in a row", last.empty() ? "" : ", the last: ", last),
               last);
}

bool Ejections::may_eject(size_t endpoint, uint64_t now_ms) const {
  size_t count = 0, out = 0, others = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const EndpointState& state = slots_.state(i);
    if (!state.present.load(kRelaxed)) continue;
    ++count;
    if (state.health.ejected_until_ms.load(kRelaxed) != 0) ++out;
    if (i != endpoint && state.up(now_ms)) ++others;
  }
  return others > 0 && out < std::max<size_t>(count * config_->max_share / 100, 1);
}

uint64_t Ejections::next_time_ms(size_t endpoint, uint64_t now_ms) const {
  const EndpointState& state = slots_.state(endpoint);
  const auto base_ms = config::milliseconds(config_->time);
  const uint64_t before = state.health.ejections_in_a_row.load(kRelaxed);
  const uint64_t served_ms = now_ms - std::min(now_ms, state.up_since_ms.load(kRelaxed));
  const uint64_t times = before - std::min(before, served_ms / base_ms) + 1;
  return std::min(times * base_ms, config::milliseconds(config_->max_time));
}

// A writer lowers next_return_ms_ after storing its ejected_until_ms; end_due_ejections() scans those after raising
// next_return_ms_. So no expiry is missed.
void Ejections::return_at(uint64_t due_ms) {
  uint64_t next = next_return_ms_.load();
  while (due_ms < next && !next_return_ms_.compare_exchange_weak(next, due_ms)) {
  }
}

void Ejections::end_due_ejections(uint64_t now_ms) {
  uint64_t due_ms = next_return_ms_.load();
  if (now_ms < due_ms || !next_return_ms_.compare_exchange_strong(due_ms, UINT64_MAX))
    return;  // Another worker does it.
  for (size_t i = 0; i < slots_.size(); ++i) {
    EndpointState& state = slots_.state(i);
    EndpointHealth& health = state.health;
    uint64_t until_ms = health.ejected_until_ms.load();
    if (until_ms == 0) continue;
    if (now_ms < until_ms) {
      return_at(until_ms);
      continue;
    }
    state.up_since_ms.store(now_ms, kRelaxed);
    if (!health.ejected_until_ms.compare_exchange_strong(until_ms, 0)) continue;
    slots_.note_health_change();
    // The name of an endpoint that was removed must not be read.
    if (!state.present.load(std::memory_order_acquire)) continue;
    log_endpoint(slots_, i, now_ms,
                 absl::StrCat("is no longer ejected", after_text(health.ejected_since_ms.load(kRelaxed), now_ms)));
  }
}

}  // namespace sluice
