#include "proxy/server/metrics_report.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/config/load/scalar.h"
#include "proxy/overload/overload_state.h"
#include "proxy/server/concurrency_figures.h"
#include "proxy/server/exposition.h"
#include "proxy/xds/resource_kind.h"
#include "sluice/copied.h"
#include "sluice/tier.h"
#include "sluice/version.h"

namespace sluice {

namespace {

using Workers = std::vector<std::shared_ptr<WorkerCounters>>;

/// Sums `get(worker counters)` over the workers.
template <typename Get>
uint64_t sum(const Workers& workers, Get get) {
  uint64_t total = 0;
  for (const auto& worker : workers) total += get(*worker).value();
  return total;
}

void line(std::string& out, std::string_view name, std::string_view labels, uint64_t value) {
  absl::StrAppend(&out, "sluice_", name, labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}", " ", value,
                  "\n");
}

void listener_lines(std::string& out, const Workers& workers, size_t index, const config::Listener& listener) {
  const auto total = [&](auto get) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return get(*w.listeners[index]); });
  };
  const std::string label = absl::StrCat("listener=\"", escaped(listener.name), "\"");
  uint64_t over = 0;
  std::string reasons;
  for (size_t r = 0; r < kRefusalCount; ++r) {
    const uint64_t n = total([&](const ListenerCounters& c) -> const Counter& { return c.refused[r]; });
    over += n;
    if (n)
      line(reasons, "refused_total", absl::StrCat(label, ",limit=\"", refusal_name(static_cast<Refusal>(r)), "\""), n);
  }
  for (size_t e = 0; e < kSessionEndCount; ++e) {
    const uint64_t n = total([&](const ListenerCounters& c) -> const Counter& { return c.ended[e]; });
    over += n;
    if (n) {
      line(reasons, "sessions_ended_total",
           absl::StrCat(label, ",reason=\"", session_end_name(static_cast<SessionEnd>(e)), "\""), n);
    }
  }
  for (size_t s = 0; s < kStayReasonCount; ++s) {
    const uint64_t n = total([&](const ListenerCounters& c) -> const Counter& { return c.stayed[s]; });
    if (n) {
      line(reasons, "not_moved_total",
           absl::StrCat(label, ",reason=\"", stay_reason_name(static_cast<StayReason>(s)), "\""), n);
    }
  }
  // Read behind those that are over, so that what ends meanwhile does not make the difference negative.
  const uint64_t accepted = total([](const ListenerCounters& c) -> const Counter& { return c.accepted; });
  const uint64_t resumed = total([](const ListenerCounters& c) -> const Counter& { return c.resumed; });
  line(out, "accepted_total", label, accepted);
  line(out, "resumed_total", label, resumed);
  line(out, "rebalanced_total", label, total([](const ListenerCounters& c) -> const Counter& { return c.rebalanced; }));
  line(out, "sessions_active", label, accepted + resumed - over);
  line(out, "accept_pauses_total", label,
       total([](const ListenerCounters& c) -> const Counter& { return c.accept_pauses; }));
  line(out, "received_bytes_total", label,
       total([](const ListenerCounters& c) -> const Counter& { return c.bytes_in; }));
  line(out, "sent_bytes_total", label, total([](const ListenerCounters& c) -> const Counter& { return c.bytes_out; }));
  if (listener.tls || listener.alts) {
    line(out, "tls_handshakes_total", label,
         total([](const ListenerCounters& c) -> const Counter& { return c.tls_handshakes; }));
    line(out, "tls_resumed_total", label,
         total([](const ListenerCounters& c) -> const Counter& { return c.tls_resumed; }));
    line(out, "tls_truncated_total", label,
         total([](const ListenerCounters& c) -> const Counter& { return c.tls_truncated; }));
  }
  out += reasons;
}

// Health of one configured endpoint, over all its addresses: whether all are healthy, and how many are ejected.
// Counters include addresses that it had before.
void health_lines(std::string& out, const UpstreamState& state, size_t endpoint, const std::string& label) {
  uint64_t checks = 0, failed_checks = 0, checks_not_made = 0, ejected = 0, ejections = 0;
  bool healthy = true;
  for (size_t slot = 0; slot < state.size(); ++slot) {
    if (state.slots().configured(slot) != endpoint) continue;
    const EndpointState& each = state.endpoint(slot);
    checks += each.health.checks.value();
    failed_checks += each.health.failed_checks.value();
    checks_not_made += each.health.checks_not_made.value();
    ejections += each.health.ejections.load(std::memory_order_relaxed);
    if (!each.present.load(std::memory_order_relaxed)) continue;
    if (!each.health.healthy.load(std::memory_order_relaxed)) healthy = false;
    if (each.health.ejected_until_ms.load(std::memory_order_relaxed) != 0) ++ejected;
  }
  if (state.config().health_check) {
    line(out, "endpoint_healthy", label, healthy ? 1 : 0);
    line(out, "endpoint_health_checks_total", label, checks);
    line(out, "endpoint_health_checks_failed_total", label, failed_checks);
    line(out, "endpoint_health_checks_not_made_total", label, checks_not_made);
  }
  if (state.ejections()) {
    line(out, "endpoint_ejected", label, ejected);
    line(out, "endpoint_ejections_total", label, ejections);
  }
}

// The counters of an endpoint that is a name, and of each of its addresses.
void name_lines(std::string& out, std::string_view label, size_t endpoint, const UpstreamState& state,
                const EndpointView& view) {
  const ResolveCounters& resolving = state.resolving(endpoint);
  line(out, "resolve_lookups_total", label, resolving.lookups.value());
  line(out, "resolve_failures_total", label, resolving.failures.value());
  line(out, "resolve_empty_total", label, resolving.empty.value());
  line(out, "resolve_changes_total", label, resolving.changes.value());
  line(out, "resolve_left_out_total", label, resolving.left_out.value());
  line(out, "resolve_addresses", label, resolving.addresses.value());
  for (const uint32_t slot : view.present()) {
    if (state.slots().configured(slot) != endpoint) continue;
    line(out, "endpoint_address_connections_active",
         absl::StrCat(label, ",address=\"", escaped(state.slots().text(slot)), "\""),
         state.endpoint(slot).active.load(std::memory_order_relaxed));
  }
}

// How many addresses the upstream has, and how many of them may be chosen now.
void address_lines(std::string& out, const UpstreamState& state, const EndpointView& view) {
  const std::string label = absl::StrCat("upstream=\"", escaped(state.config().name), "\"");
  const uint64_t now_ms = monotonic_ms();
  uint64_t up = 0;
  for (const uint32_t slot : view.present()) up += state.endpoint(slot).up(now_ms) ? 1 : 0;
  line(out, "upstream_addresses", label, view.present().size());
  line(out, "upstream_addresses_up", label, up);
}

// Open connections of each configured or added endpoint, over all its present and earlier addresses.
std::vector<uint64_t> active_by_endpoint(const UpstreamState& state) {
  std::vector<uint64_t> active(state.config().endpoints.size() + state.slots().added_slots());
  for (size_t slot = 0; slot < state.size(); ++slot) {
    active[state.slots().configured(slot)] += state.endpoint(slot).active.load(std::memory_order_relaxed);
  }
  return active;
}

// `endpoint`: see EndpointTable::configured(); `name`: as configured or added.
void endpoint_lines(std::string& out, const Workers& workers, size_t upstream, size_t endpoint, std::string_view name,
                    const UpstreamState& state, const EndpointView& view, uint64_t active) {
  const auto total = [&](auto get) {
    return sum(workers,
               [&](const WorkerCounters& w) -> const Counter& { return get(*w.upstreams[upstream][endpoint]); });
  };
  const std::vector<config::Endpoint>& configured = state.config().endpoints;
  const std::string label =
      absl::StrCat("upstream=\"", escaped(state.config().name), "\",endpoint=\"", escaped(name), "\"");
  line(out, "endpoint_connections_total", label,
       total([](const EndpointCounters& c) -> const Counter& { return c.connected; }));
  line(out, "endpoint_connections_active", label, active);
  if (endpoint < configured.size() && configured[endpoint].is_resolved()) name_lines(out, label, endpoint, state, view);
  if (state.config().tls || state.config().alts) {
    line(out, "endpoint_tls_handshakes_total", label,
         total([](const EndpointCounters& c) -> const Counter& { return c.tls_handshakes; }));
    line(out, "endpoint_tls_resumed_total", label,
         total([](const EndpointCounters& c) -> const Counter& { return c.tls_resumed; }));
    line(out, "endpoint_tls_truncated_total", label,
         total([](const EndpointCounters& c) -> const Counter& { return c.tls_truncated; }));
  }
  line(out, "endpoint_received_bytes_total", label,
       total([](const EndpointCounters& c) -> const Counter& { return c.bytes_in; }));
  line(out, "endpoint_sent_bytes_total", label,
       total([](const EndpointCounters& c) -> const Counter& { return c.bytes_out; }));
  health_lines(out, state, endpoint, label);
  for (size_t e = 0; e < kConnectErrorCount; ++e) {
    const uint64_t n = total([&](const EndpointCounters& c) -> const Counter& { return c.connect_errors[e]; });
    if (n == 0) continue;
    line(out, "endpoint_connect_errors_total",
         absl::StrCat(label, ",kind=\"", connect_error_name(static_cast<ConnectError>(e)), "\""), n);
  }
}

void codec_lines(std::string& out, std::string_view label, const auto& total) {
  for (const auto& each : http1_counters()) {
    const uint64_t n = total([&](const CodecCounters& c) -> const Counter& { return c.http1.*each.member; });
    if (n) line(out, absl::StrCat("http1_", each.name, "_total"), label, n);
  }
  for (const auto& each : http2_counters()) {
    const uint64_t n = total([&](const CodecCounters& c) -> const Counter& { return c.http2.*each.member; });
    if (n) line(out, absl::StrCat("http2_", each.name, "_total"), label, n);
  }
}

void compression_lines(std::string& out, std::string_view label, const auto& total) {
  for (size_t i = 0; i < kContentCodings; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.compressed[i]; });
    const std::string_view coding = content_coding_name(static_cast<ContentCoding>(i));
    if (n) line(out, "http_compressed_total", absl::StrCat(label, ",coding=\"", coding, "\""), n);
  }
  const auto member = [&](std::string_view name, Counter HttpCounters::* counter) {
    line(out, name, label, total([&](const HttpCounters& c) -> const Counter& { return c.*counter; }));
  };
  member("http_compression_refused_total", &HttpCounters::compression_refused);
  member("http_compression_in_bytes_total", &HttpCounters::compression_in_bytes);
  member("http_compression_out_bytes_total", &HttpCounters::compression_out_bytes);
}

void http_listener_lines(std::string& out, const Workers& workers, size_t index, const config::Listener& listener) {
  const auto total = [&](auto get) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return get(*w.http_listeners[index]); });
  };
  const auto member = [&](Counter HttpCounters::* counter) {
    return total([&](const HttpCounters& c) -> const Counter& { return c.*counter; });
  };
  const std::string label = absl::StrCat("listener=\"", escaped(listener.name), "\"");
  line(out, "http_connections_total", label + ",version=\"1.1\"", member(&HttpCounters::connections_h1));
  line(out, "http_connections_total", label + ",version=\"2\"", member(&HttpCounters::connections_h2));
  uint64_t over = 0;
  std::string reasons;
  for (size_t e = 0; e < kHttpEndCount; ++e) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.ended[e]; });
    over += n;
    if (n) {
      line(reasons, "http_requests_ended_total",
           absl::StrCat(label, ",reason=\"", http_end_name(static_cast<HttpEnd>(e)), "\""), n);
    }
  }
  const uint64_t requests = member(&HttpCounters::requests);  // Last, as above.
  line(out, "http_requests_total", label, requests);
  line(out, "http_requests_active", label, requests - over);
  out += reasons;
  for (size_t s = 1; s < 6; ++s) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.statuses[s]; });
    if (n) line(out, "http_responses_total", absl::StrCat(label, ",class=\"", s, "xx\""), n);
  }
  line(out, "http_request_body_bytes_total", label, member(&HttpCounters::request_bytes));
  line(out, "http_response_body_bytes_total", label, member(&HttpCounters::response_bytes));
  line(out, "http_retries_total", label, member(&HttpCounters::retries));
  line(out, "http_tunnels_total", label, member(&HttpCounters::tunnels));
  line(out, "http_memory_pauses_total", label, member(&HttpCounters::memory_pauses));
  line(out, "http_header_timeouts_total", label, member(&HttpCounters::header_timeouts));
  line(out, "http_trailer_fields_dropped_total", label, member(&HttpCounters::trailer_fields_dropped));
  line(out, "http_paths_changed_total", label, member(&HttpCounters::paths_changed));
  for (size_t i = 0; i < kClaimCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.claims_refused[i]; });
    if (n)
      line(out, "http_claims_refused_total", absl::StrCat(label, ",field=\"", claim_name(static_cast<Claim>(i)), "\""),
           n);
  }
  struct Relaxed {
    const char* kind;
    Counter HttpCounters::* counter;
  };
  for (const Relaxed& relaxed :
       {Relaxed{"merged_slashes", &HttpCounters::slashes_merged},
        Relaxed{"escaped_slashes", &HttpCounters::slashes_escaped}, Relaxed{"backslashes", &HttpCounters::backslashes},
        Relaxed{"dot_parameters", &HttpCounters::dot_parameters}}) {
    if (const uint64_t n = member(relaxed.counter)) {
      line(out, "http_paths_relaxed_total", absl::StrCat(label, ",rule=\"", relaxed.kind, "\""), n);
    }
  }
  if (listener.http->compression) compression_lines(out, label, total);
  if (const uint64_t written =
          total([](const HttpCounters& c) -> const Counter& { return c.body_file.written_bytes; })) {
    line(out, "http_body_file_written_bytes_total", label, written);
  }
  if (const uint64_t refused = total([](const HttpCounters& c) -> const Counter& { return c.body_file.refused; })) {
    line(out, "http_body_file_refused_total", label, refused);
  }
  for (size_t i = 0; i < kForwardAuthResultCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.forward_auth[i]; });
    const char* const result = forward_auth_result_name(static_cast<ForwardAuthResult>(i));
    if (n) line(out, "http_forward_auth_total", absl::StrCat(label, ",result=\"", result, "\""), n);
  }
  if (const uint64_t n = member(&HttpCounters::forward_auth_unchecked)) {
    line(out, "http_forward_auth_unchecked_total", label, n);
  }
  for (size_t i = 0; i < kGlobalRateLimitResultCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.global_rate_limits[i]; });
    const char* const result = global_rate_limit_result_name(static_cast<GlobalRateLimitResult>(i));
    if (n) line(out, "http_global_rate_limit_total", absl::StrCat(label, ",result=\"", result, "\""), n);
  }
  if (listener.http->tracing) {
    line(out, "http_trace_spans_exported_total", label, member(&HttpCounters::trace_spans_exported));
    line(out, "http_trace_spans_lost_total", label, member(&HttpCounters::trace_spans_lost));
    line(out, "http_trace_spans_dropped_total", label, member(&HttpCounters::trace_spans_dropped));
  }
  codec_lines(out, label,
              [&](auto get) { return total([&](const HttpCounters& c) -> const Counter& { return get(c.codecs); }); });
}

void concurrency_lines(std::string& out, const Workers& workers, size_t index, const std::string& label) {
  const ConcurrencyFigures figures = ConcurrencyFigures::of(workers, index);
  line(out, "upstream_concurrency_limit", label, figures.limit);
  line(out, "upstream_concurrency_in_flight", label, figures.in_flight);
  line(out, "upstream_concurrency_waiting", label, figures.waiting);
  line(out, "upstream_concurrency_base_latency", label, figures.base_us / 1000);
  for (size_t i = 0; i < config::kPriorityCount; ++i) {
    const std::string priority = config::Scalar<config::Priority>::print(static_cast<config::Priority>(i));
    line(out, "upstream_concurrency_refused_total", absl::StrCat(label, ",priority=\"", priority, "\""),
         figures.refused[i]);
  }
}

void http_upstream_lines(std::string& out, const Workers& workers, size_t index, const UpstreamState& state) {
  const auto total = [&](auto get) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return get(*w.http_upstreams[index]); });
  };
  const auto member = [&](Counter UpstreamHttpCounters::* counter) {
    return total([&](const UpstreamHttpCounters& c) -> const Counter& { return c.*counter; });
  };
  const std::string label = absl::StrCat("upstream=\"", escaped(state.config().name), "\"");
  if (member(&UpstreamHttpCounters::connections_opened) == 0) return;
  line(out, "upstream_requests_total", label, member(&UpstreamHttpCounters::requests));
  line(out, "upstream_connections_opened_total", label, member(&UpstreamHttpCounters::connections_opened));
  line(out, "upstream_connections_reused_total", label, member(&UpstreamHttpCounters::connections_reused));
  line(out, "upstream_connections_stale_total", label, member(&UpstreamHttpCounters::connections_stale));
  line(out, "upstream_pending_refused_total", label, member(&UpstreamHttpCounters::pending_refused));
  line(out, "upstream_mirrored_total", label, member(&UpstreamHttpCounters::mirrored));
  line(out, "upstream_mirrors_given_up_total", label, member(&UpstreamHttpCounters::mirrors_given_up));
  line(out, "upstream_retries_total", label, member(&UpstreamHttpCounters::retries));
  line(out, "upstream_retries_over_budget_total", label, member(&UpstreamHttpCounters::retries_over_budget));
  line(out, "upstream_hedges_total", label, member(&UpstreamHttpCounters::hedges));
  line(out, "upstream_hedges_won_total", label, member(&UpstreamHttpCounters::hedges_won));
  if (state.config().adaptive_concurrency) concurrency_lines(out, workers, index, label);
  codec_lines(out, label, [&](auto get) {
    return total([&](const UpstreamHttpCounters& c) -> const Counter& { return get(c.codecs); });
  });
}

void balancer_lines(std::string& out, const Workers& workers, size_t index, const UpstreamState& state) {
  struct Line {
    const char* name;
    Counter Balancer::Counters::* counter;
  };
  const std::string label = absl::StrCat("upstream=\"", escaped(state.config().name), "\"");
  for (const Line& each : {Line{"upstream_sticky_kept_total", &Balancer::Counters::preferred},
                           Line{"upstream_sticky_lost_total", &Balancer::Counters::preferred_lost},
                           Line{"upstream_failovers_total", &Balancer::Counters::failovers},
                           Line{"upstream_panics_total", &Balancer::Counters::panics}}) {
    const uint64_t n =
        sum(workers, [&](const WorkerCounters& w) -> const Counter& { return (*w.balancers[index]).*each.counter; });
    if (n) line(out, each.name, label, n);
  }
}

void rate_limit_lines(std::string& out, const Workers& workers, size_t index, const config::RateLimit& limit) {
  const std::string label = absl::StrCat("limit=\"", escaped(limit.name), "\"");
  const auto total = [&](Counter RateLimitCounters::* member) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return (*w.rate_limits[index]).*member; });
  };
  line(out, "rate_limited_total", label, total(&RateLimitCounters::limited));
  line(out, "rate_limit_dry_run_total", label, total(&RateLimitCounters::dry_run));
  line(out, "rate_limit_delayed_total", label, total(&RateLimitCounters::delayed));
  line(out, "rate_limit_dry_run_delayed_total", label, total(&RateLimitCounters::dry_run_delayed));
  line(out, "rate_limit_evictions_total", label, total(&RateLimitCounters::evictions));
  if (!limit.rate.is_bytes()) return;
  line(out, "rate_limit_bytes_total", label, total(&RateLimitCounters::bytes));
  line(out, "rate_limit_delayed_bytes_total", label, total(&RateLimitCounters::delayed_bytes));
  line(out, "rate_limit_pauses_total", label, total(&RateLimitCounters::pauses));
  line(out, "rate_limit_dry_run_delayed_bytes_total", label, total(&RateLimitCounters::dry_run_delayed_bytes));
}

void worker_lines(std::string& out, const Workers& workers) {
  const auto total = [&](Counter WorkerGauges::* member) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return (*w.gauges).*member; });
  };
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    const uint64_t bytes =
        sum(workers, [&](const WorkerCounters& w) -> const Counter& { return w.gauges->tier_out_bytes[tier]; });
    if (bytes) line(out, "pool_tier_bytes", absl::StrCat("tier=\"", tier_bytes(static_cast<int>(tier)), "\""), bytes);
  }
  line(out, "pool_borrowed_bytes", "", total(&WorkerGauges::pool_borrowed_bytes));
  line(out, "pool_claims_total", "", total(&WorkerGauges::pool_claims));
  line(out, "pool_recalls_total", "", total(&WorkerGauges::pool_recalls));
  line(out, "pool_bytes", "", total(&WorkerGauges::pool_out_bytes));
  line(out, "pool_peak_bytes", "", total(&WorkerGauges::pool_out_bytes_peak));
  line(out, "pool_mapped_bytes", "", total(&WorkerGauges::pool_mapped_bytes));
  line(out, "pool_posted_bytes", "", total(&WorkerGauges::posted_bytes));
  line(out, "pool_pinned_bytes", "", total(&WorkerGauges::pool_out_bytes) - total(&WorkerGauges::posted_bytes));
  line(out, "pool_refused_total", "", total(&WorkerGauges::pool_refused));
  line(out, "pool_discarded_bytes_total", "", total(&WorkerGauges::pool_discarded_bytes));
  line(out, "receives_parked", "", total(&WorkerGauges::parked));
  line(out, "receives_without_buffer_total", "", total(&WorkerGauges::no_buffers));
  line(out, "copied_bytes_total", "", total(&WorkerGauges::copied_bytes));
  line(out, "packed_total", "", total(&WorkerGauges::packed));
  line(out, "receives_total", "", total(&WorkerGauges::receives));
  line(out, "sends_total", "", total(&WorkerGauges::sends));
  line(out, "zero_copy_sends_total", "", total(&WorkerGauges::zero_copy_sends));
  line(out, "zero_copy_copied_total", "", total(&WorkerGauges::zero_copy_copied));
  line(out, "loop_batches_total", "", total(&WorkerGauges::batches));
  line(out, "loop_completions_total", "", total(&WorkerGauges::completions));
  line(out, "completion_overflows_total", "", total(&WorkerGauges::overflows));
}

void overload_lines(std::string& out, const Workers& workers) {
  for (size_t i = 0; i < kOverloadActionCount; ++i) {
    const uint64_t n =
        sum(workers, [i](const WorkerCounters& w) -> const Counter& { return w.gauges->overload.actions[i]; });
    const char* const action = overload_action_name(static_cast<OverloadAction>(i));
    line(out, "overload_actions_total", absl::StrCat("action=\"", action, "\""), n);
  }
  uint64_t delay_ms = 0, shed_percent = 0;
  for (const auto& worker : workers) {
    delay_ms = std::max(delay_ms, worker->gauges->overload.delay_ms.value());
    shed_percent = std::max(shed_percent, worker->gauges->overload.shed_percent.value());
  }
  line(out, "overload_closed_bytes_total", "",
       sum(workers, [](const WorkerCounters& w) -> const Counter& { return w.gauges->overload.closed_bytes; }));
  line(out, "overload_loop_delay", "", delay_ms);
  line(out, "overload_refused_percent", "", shed_percent);
}

}  // namespace

void update_gauges(Worker& worker, WorkerGauges& gauges) {
  const ChunkPool::Stats pool = worker.pool().stats();
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    gauges.tier_out_bytes[tier].set(pool.tiers[tier].out * tier_bytes(static_cast<int>(tier)));
  }
  gauges.pool_out_bytes.set(pool.out_bytes);
  gauges.pool_out_bytes_peak.set(pool.out_bytes_peak);
  gauges.pool_mapped_bytes.set(pool.mapped_bytes);
  gauges.pool_refused.set(pool.refused);
  gauges.pool_discarded_bytes.set(pool.discarded_bytes);
  const BudgetShare* const share = worker.pool().share();
  gauges.pool_budget_bytes.set(pool.budget_bytes);
  gauges.pool_held_bytes.set(share ? share->held_bytes() : pool.budget_bytes);
  gauges.pool_borrowed_bytes.set(share ? share->borrowed_bytes() : 0);
  gauges.pool_claims.set(share ? share->claim_count() : 0);
  gauges.pool_recalls.set(share ? share->recall_count() : 0);
  gauges.posted_bytes.set(worker.small_group().posted_bytes() + worker.large_group().posted_bytes());
  const Worker::Counters& counters = worker.counters();
  gauges.parked.set(counters.parked);
  gauges.no_buffers.set(counters.no_buffers);
  gauges.copied_bytes.set(copied_bytes);
  gauges.packed.set(counters.packed);
  gauges.receives.set(counters.receives);
  gauges.sends.set(counters.sends);
  gauges.zero_copy_sends.set(counters.zero_copy_sends);
  gauges.zero_copy_copied.set(counters.zero_copy_copied);
  gauges.batches.set(counters.batches);
  gauges.completions.set(counters.completions);
  gauges.overflows.set(worker.ring().overflows());
}

uint64_t resets_of(const Workers& workers, SessionKind kind) {
  return sum(workers, [kind](const WorkerCounters& w) -> const Counter& {
    return w.resets->by_kind[static_cast<size_t>(kind)];
  });
}

std::string format_stats(const config::Config& config, const ControlCounters& control, const Workers& workers,
                         const std::vector<std::shared_ptr<UpstreamState>>& upstreams) {
  std::string out;
  line(out, "config_reloads_total", "", control.reloads.value());
  line(out, "config_reload_failures_total", "", control.reload_failures.value());
  line(out, "upgrades_total", "", control.upgrades.value());
  line(out, "upgrade_failures_total", "", control.upgrade_failures.value());
  line(out, "configurations", "", control.configurations.value());
  line(out, "configurations_drained_total", "", control.configurations_drained.value());
  for (size_t kind = 0; kind < kSessionKindCount; ++kind) {
    const uint64_t n = resets_of(workers, static_cast<SessionKind>(kind));
    const char* const name = session_kind_name(static_cast<SessionKind>(kind));
    if (n) line(out, "sessions_reset_total", absl::StrCat("kind=\"", name, "\""), n);
  }
  line(out, "tls_reloads_total", "", control.tls_reloads.value());
  line(out, "tls_reload_failures_total", "", control.tls_reload_failures.value());
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    listener_lines(out, workers, i, config.listeners[i]);
    if (config.listeners[i].http) http_listener_lines(out, workers, i, config.listeners[i]);
  }
  for (size_t i = 0; i < config.rate_limits.size(); ++i) rate_limit_lines(out, workers, i, config.rate_limits[i]);
  for (size_t u = 0; u < upstreams.size(); ++u) {
    http_upstream_lines(out, workers, u, *upstreams[u]);
    balancer_lines(out, workers, u, *upstreams[u]);
    if (const Ejections* const ejections = upstreams[u]->ejections()) {
      line(out, "upstream_ejections_refused_total",
           absl::StrCat("upstream=\"", escaped(config.upstreams[u].name), "\""), ejections->refused());
    }
    const EndpointView view(upstreams[u]->slots());
    address_lines(out, *upstreams[u], view);
    const std::vector<uint64_t> active = active_by_endpoint(*upstreams[u]);
    for (size_t e = 0; e < config.upstreams[u].endpoints.size(); ++e) {
      endpoint_lines(out, workers, u, e, config.upstreams[u].endpoints[e].text(), *upstreams[u], view, active[e]);
    }
    for (const EndpointTable::Added& added : upstreams[u]->slots().added()) {
      const uint32_t e = upstreams[u]->slots().configured(added.slot);
      endpoint_lines(out, workers, u, e, added.address, *upstreams[u], view, active[e]);
    }
  }
  const uint64_t budget = config.memory.budget_of(workers.size());
  const uint64_t held =
      sum(workers, [](const WorkerCounters& w) -> const Counter& { return w.gauges->pool_held_bytes; });
  line(out, "pool_budget_bytes", "", budget);
  line(out, "pool_guaranteed_bytes", "", config.memory.worker_budget.bytes * workers.size());
  line(out, "pool_available_bytes", "", budget > held ? budget - held : 0);
  worker_lines(out, workers);
  overload_lines(out, workers);
  return out;
}

std::string format_scrape(const ScrapeState& state) {
  std::string out;
  line(out, "build_info", "version=\"" SLUICE_VERSION_STRING "\"", 1);
  line(out, "ready", "", state.ready ? 1 : 0);
  line(out, "config_generation", "", state.generation);
  line(out, "config_applied_timestamp_seconds", "", static_cast<uint64_t>(state.applied_s));
  for (size_t i = 0; i < state.responds.size(); ++i) {
    line(out, "worker_responds", absl::StrCat("worker=\"", i, "\""), state.responds[i] ? 1 : 0);
  }
  return out;
}

std::string format_admin(const AdminCounters& counters) {
  std::string out;
  line(out, "admin_connections_accepted_total", "", counters.accepted.value());
  line(out, "admin_connections_open", "", counters.open.value());
  line(out, "admin_connections_refused_total", "", counters.refused_connections.value());
  line(out, "admin_connections_evicted_total", "", counters.evicted.value());
  line(out, "admin_requests_total", "", counters.requests.value());
  line(out, "admin_requests_refused_total", "reason=\"unauthorized\"", counters.unauthorized.value());
  line(out, "admin_requests_refused_total", "reason=\"host\"", counters.refused_hosts.value());
  line(out, "admin_requests_refused_total", "reason=\"origin\"", counters.refused_origins.value());
  line(out, "admin_requests_refused_total", "reason=\"too_large\"", counters.too_large.value());
  line(out, "admin_requests_refused_total", "reason=\"memory\"", counters.refused_memory.value());
  line(out, "admin_requests_refused_total", "reason=\"malformed\"", counters.malformed.value());
  line(out, "admin_requests_refused_total", "reason=\"insecure\"", counters.insecure.value());
  line(out, "admin_tls_handshakes_total", "", counters.tls_handshakes.value());
  line(out, "admin_tls_failures_total", "", counters.tls_failures.value());
  line(out, "admin_timeouts_total", "timeout=\"handshake\"", counters.handshake_timeouts.value());
  line(out, "admin_timeouts_total", "timeout=\"idle\"", counters.idle_timeouts.value());
  line(out, "admin_timeouts_total", "timeout=\"header\"", counters.header_timeouts.value());
  line(out, "admin_timeouts_total", "timeout=\"send\"", counters.send_timeouts.value());
  line(out, "admin_endpoint_changes_total", "", counters.endpoint_changes.value());
  line(out, "admin_figures_timeouts_total", "", counters.figures_timeouts.value());
  return out;
}

std::string format_xds(const XdsCounters& counters) {
  std::string out;
  line(out, "xds_connected", "", counters.stream.connected.value());
  line(out, "xds_connects_total", "", counters.stream.connects.value());
  line(out, "xds_failures_total", "", counters.stream.failures.value());
  for (const xds::KindInfo& info : xds::kKinds) {
    const auto kind = static_cast<size_t>(info.kind);
    const auto labels = [&](std::string_view result) {
      return absl::StrCat("kind=\"", info.label, "\",result=\"", result, "\"");
    };
    line(out, "xds_responses_total", labels("accepted"), counters.accepted[kind].value());
    line(out, "xds_responses_total", labels("rejected"), counters.rejected[kind].value());
  }
  line(out, "xds_last_update_timestamp_seconds", "", counters.updated_s.value());
  line(out, "xds_from_cache", "", counters.from_cache.value());
  line(out, "xds_waiting_updates", "", counters.waiting.value());
  line(out, "xds_wait_timeouts_total", "", counters.wait_timeouts.value());
  line(out, "xds_expired_resources_total", "", counters.expired.value());
  line(out, "xds_load_connected", "", counters.load_stream.connected.value());
  line(out, "xds_load_connects_total", "", counters.load_stream.connects.value());
  line(out, "xds_load_failures_total", "", counters.load_stream.failures.value());
  line(out, "xds_load_reports_total", "", counters.load_reports.value());
  line(out, "xds_health_connected", "", counters.health.stream.connected.value());
  line(out, "xds_health_connects_total", "", counters.health.stream.connects.value());
  line(out, "xds_health_failures_total", "", counters.health.stream.failures.value());
  line(out, "xds_health_reports_total", "", counters.health.reports.value());
  line(out, "xds_health_checked_endpoints", "", counters.health.checked_endpoints.value());
  line(out, "xds_health_unhealthy_endpoints", "", counters.health.unhealthy_endpoints.value());
  line(out, "xds_health_unknown_endpoints", "", counters.health.unknown_endpoints.value());
  return out;
}

std::string format_overload(const OverloadState& state) {
  std::string out;
  line(out, "overload_memory_level", "", static_cast<uint64_t>(state.level()));
  line(out, "overload_memory_used_bytes", "", state.used_bytes());
  line(out, "overload_memory_limit_bytes", "", state.limit_bytes());
  return out;
}

std::string format_body_file(const FilePool::Stats& stats) {
  std::string out;
  line(out, "body_file_bytes", "", stats.out_bytes);
  line(out, "body_file_disk_bytes", "", stats.disk_bytes);
  line(out, "body_file_limit_bytes", "", stats.limit_bytes);
  line(out, "body_file_refused_total", "reason=\"limit\"", stats.refused_by_limit);
  line(out, "body_file_refused_total", "reason=\"disk\"", stats.refused_by_disk);
  return out;
}

std::string format_run_log(const RunLogCounts& counts) {
  std::string out;
  for (size_t i = 0; i < counts.lines.size(); ++i) {
    const std::string_view level = log_level_name(static_cast<LogLevel>(i));
    line(out, "log_lines_total", absl::StrCat("level=\"", level, "\""), counts.lines[i]);
  }
  line(out, "log_dropped_total", "stream=\"log\"", counts.dropped);
  line(out, "log_dropped_total", "stream=\"stdout\"", counts.prints_dropped);
  line(out, "log_errors_total", "", counts.errors);
  line(out, "log_suppressed_total", "", counts.suppressed);
  return out;
}

std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors) {
  const std::string label = absl::StrCat("listener=\"", escaped(listener.name), "\"");
  std::string out;
  line(out, "access_log_lines_total", label, written);
  line(out, "access_log_dropped_total", label, dropped);
  line(out, "access_log_errors_total", label, errors);
  return out;
}

}  // namespace sluice
