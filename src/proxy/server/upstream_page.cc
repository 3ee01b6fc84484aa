#include "proxy/server/upstream_page.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "proxy/config/load/scalar.h"

namespace sluice {

namespace {

struct Verdict {
  std::string_view state;
  std::string reason;
};

std::string seconds_text(uint64_t ms) { return absl::StrFormat("%.1fs", static_cast<double>(ms) / 1000); }

// The first of the reasons against an address that applies; EndpointState::up() combines the same ones.
Verdict verdict_of(const UpstreamState& upstream, const EndpointState& state, uint64_t now_ms) {
  const EndpointHealth& health = state.health;
  if (!state.enabled()) {
    return {endpoint_mode_name(state.mode.load(std::memory_order_relaxed)),
            "an operator wants it to get no connections and requests: see `changed`"};
  }
  if (!health.healthy.load(std::memory_order_relaxed)) {
    const uint64_t since_ms = health.unhealthy_since_ms.load(std::memory_order_relaxed);
    return {"unhealthy", absl::StrCat("its health checks have failed for ",
                                      seconds_text(now_ms > since_ms ? now_ms - since_ms : 0))};
  }
  if (const uint64_t until_ms = health.ejected_until_ms.load(std::memory_order_relaxed)) {
    return {"ejected", absl::StrCat("ejected because of errors of requests, for another ",
                                    seconds_text(until_ms > now_ms ? until_ms - now_ms : 0))};
  }
  if (state.down(now_ms)) {
    const uint64_t until_ms = state.down_until_ms.load(std::memory_order_relaxed);
    return {
        "down",
        absl::StrCat("connections to it have failed, ", state.fails_in_a_row.load(std::memory_order_relaxed),
                     " in a row: passed over for another ", seconds_text(until_ms > now_ms ? until_ms - now_ms : 0))};
  }
  const uint32_t most = upstream.config().max_connections_per_endpoint;
  if (most > 0 && state.active.load(std::memory_order_relaxed) >= most) {
    return {"full", absl::StrCat("it has as many connections as max_connections_per_endpoint allows: ", most)};
  }
  return {"up", ""};
}

std::string time_of(const EndpointChange& change) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(change.at_s), absl::UTCTimeZone());
}

void write_change(const UpstreamState& upstream, uint32_t slot, JsonWriter& json) {
  const std::optional<EndpointChange> change = upstream.changes().of(slot);
  if (!change) return void(json.null());
  json.begin_object().member("state", endpoint_mode_name(change->mode)).key("weight");
  change->weight != 0 ? void(json.value(change->weight)) : void(json.null());
  json.member("configured_weight", upstream.slots().configured_weight(slot)).member("keep", change->keep);
  json.member("at", time_of(*change)).member("by", change->by).end_object();
}

void write_removal(const UpstreamState& upstream, size_t configured, JsonWriter& json) {
  const std::optional<EndpointChange> removal = upstream.changes().removal_of(static_cast<uint32_t>(configured));
  if (!removal) return void(json.null());
  json.begin_object().member("keep", removal->keep).member("at", time_of(*removal)).member("by", removal->by);
  json.end_object();
}

}  // namespace

std::string_view endpoint_mode_name(EndpointMode mode) {
  constexpr std::string_view kNames[] = {"enabled", "draining", "disabled"};
  return kNames[static_cast<size_t>(mode)];
}

void write_address(const UpstreamState& upstream, uint32_t slot, uint64_t now_ms, JsonWriter& json) {
  const EndpointState& state = upstream.endpoint(slot);
  const EndpointHealth& health = state.health;
  const Verdict verdict = verdict_of(upstream, state, now_ms);
  json.begin_object().member("address", upstream.slots().text(slot));
  json.member("added", upstream.slots().is_added(slot));
  json.member("state", verdict.state).member("reason", verdict.reason);
  json.member("weight", upstream.slots().weight(slot)).member("priority", upstream.slots().priority(slot));
  json.member("share", static_cast<double>(upstream.share(slot, now_ms)) / UpstreamState::kFullShare);
  json.member("active", state.active.load(std::memory_order_relaxed));
  json.member("failures_in_a_row", state.fails_in_a_row.load(std::memory_order_relaxed));
  json.key("healthy");
  upstream.config().health_check ? void(json.value(health.healthy.load(std::memory_order_relaxed))) : void(json.null());
  json.member("checks", health.checks.value()).member("checks_failed", health.failed_checks.value());
  json.member("ejected", health.ejected_until_ms.load(std::memory_order_relaxed) != 0);
  json.member("ejections", health.ejections.load(std::memory_order_relaxed));
  write_change(upstream, slot, json.key("changed"));
  json.end_object();
}

namespace {

void write_concurrency(const std::optional<ConcurrencyFigures>& figures, JsonWriter& json) {
  if (!figures) {
    json.null();
    return;
  }
  uint64_t refused = 0;
  for (const uint64_t each : figures->refused) refused += each;
  json.begin_object().member("limit", figures->limit).member("in_flight", figures->in_flight);
  json.member("waiting", figures->waiting).member("base_latency_ms", figures->base_us / 1000);
  json.member("refused", refused).end_object();
}

}  // namespace

void write_upstream(UpstreamState& upstream, const std::optional<ConcurrencyFigures>& concurrency, uint64_t now_ms,
                    JsonWriter& json) {
  const config::Upstream& config = upstream.config();
  const EndpointView view(upstream.slots());
  json.begin_object().member("name", config.name);
  json.member("protocol", config::Scalar<config::Protocol>::print(config.protocol));
  json.member("balance", config::Scalar<config::Balance>::print(config.balance));
  size_t up = 0;
  for (const uint32_t slot : view.present()) up += upstream.endpoint(slot).up(now_ms);
  json.member("addresses", view.present().size()).member("addresses_up", up);
  write_concurrency(concurrency, json.key("adaptive_concurrency"));
  json.key("endpoints").begin_array();
  for (size_t i = 0; i < config.endpoints.size(); ++i) {
    json.begin_object().member("endpoint", config.endpoints[i].text());
    write_removal(upstream, i, json.key("removed"));
    json.key("addresses").begin_array();
    for (const uint32_t slot : view.present()) {
      if (upstream.slots().configured(slot) == i) write_address(upstream, slot, now_ms, json);
    }
    json.end_array().end_object();
  }
  for (const uint32_t slot : view.present()) {
    if (!upstream.slots().is_added(slot)) continue;
    json.begin_object().member("endpoint", upstream.slots().text(slot)).key("removed").null();
    write_address(upstream, slot, now_ms, json.key("addresses").begin_array());
    json.end_array().end_object();
  }
  json.end_array().end_object();
}

}  // namespace sluice
