#include "proxy/server/metrics_report.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/config/load/scalar.h"
#include "proxy/server/concurrency_figures.h"
#include "proxy/server/exposition.h"
#include "sluice/copied.h"
#include "sluice/tier.h"

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
      metric_line(reasons, "refused_total",
                  absl::StrCat(label, ",limit=\"", refusal_name(static_cast<Refusal>(r)), "\""), n);
  }
  for (size_t e = 0; e < kSessionEndCount; ++e) {
    const uint64_t n = total([&](const ListenerCounters& c) -> const Counter& { return c.ended[e]; });
    over += n;
    if (n) {
      metric_line(reasons, "sessions_ended_total",
                  absl::StrCat(label, ",reason=\"", session_end_name(static_cast<SessionEnd>(e)), "\""), n);
    }
  }
  for (size_t s = 0; s < kStayReasonCount; ++s) {
    const uint64_t n = total([&](const ListenerCounters& c) -> const Counter& { return c.stayed[s]; });
    if (n) {
      metric_line(reasons, "not_moved_total",
                  absl::StrCat(label, ",reason=\"", stay_reason_name(static_cast<StayReason>(s)), "\""), n);
    }
  }
  // Read behind those that are over, so that what ends meanwhile does not make the difference negative.
  const uint64_t accepted = total([](const ListenerCounters& c) -> const Counter& { return c.accepted; });
  const uint64_t resumed = total([](const ListenerCounters& c) -> const Counter& { return c.resumed; });
  metric_line(out, "accepted_total", label, accepted);
  metric_line(out, "resumed_total", label, resumed);
  metric_line(out, "rebalanced_total", label,
              total([](const ListenerCounters& c) -> const Counter& { return c.rebalanced; }));
  metric_line(out, "sessions_active", label, accepted + resumed - over);
  metric_line(out, "accept_pauses_total", label,
              total([](const ListenerCounters& c) -> const Counter& { return c.accept_pauses; }));
  metric_line(out, "received_bytes_total", label,
              total([](const ListenerCounters& c) -> const Counter& { return c.bytes_in; }));
  metric_line(out, "sent_bytes_total", label,
              total([](const ListenerCounters& c) -> const Counter& { return c.bytes_out; }));
  if (listener.tls || listener.alts) {
    metric_line(out, "tls_handshakes_total", label,
                total([](const ListenerCounters& c) -> const Counter& { return c.tls_handshakes; }));
    metric_line(out, "tls_resumed_total", label,
                total([](const ListenerCounters& c) -> const Counter& { return c.tls_resumed; }));
    metric_line(out, "tls_truncated_total", label,
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
    metric_line(out, "endpoint_healthy", label, healthy ? 1 : 0);
    metric_line(out, "endpoint_health_checks_total", label, checks);
    metric_line(out, "endpoint_health_checks_failed_total", label, failed_checks);
    metric_line(out, "endpoint_health_checks_not_made_total", label, checks_not_made);
  }
  if (state.ejections()) {
    metric_line(out, "endpoint_ejected", label, ejected);
    metric_line(out, "endpoint_ejections_total", label, ejections);
  }
}

// The counters of an endpoint that is a name, and of each of its addresses.
void name_lines(std::string& out, std::string_view label, size_t endpoint, const UpstreamState& state,
                const EndpointView& view) {
  const ResolveCounters& resolving = state.resolving(endpoint);
  metric_line(out, "resolve_lookups_total", label, resolving.lookups.value());
  metric_line(out, "resolve_failures_total", label, resolving.failures.value());
  metric_line(out, "resolve_empty_total", label, resolving.empty.value());
  metric_line(out, "resolve_changes_total", label, resolving.changes.value());
  metric_line(out, "resolve_left_out_total", label, resolving.left_out.value());
  metric_line(out, "resolve_addresses", label, resolving.addresses.value());
  for (const uint32_t slot : view.present()) {
    if (state.slots().configured(slot) != endpoint) continue;
    metric_line(out, "endpoint_address_connections_active",
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
  metric_line(out, "upstream_addresses", label, view.present().size());
  metric_line(out, "upstream_addresses_up", label, up);
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
  metric_line(out, "endpoint_connections_total", label,
              total([](const EndpointCounters& c) -> const Counter& { return c.connected; }));
  metric_line(out, "endpoint_connections_active", label, active);
  if (endpoint < configured.size() && configured[endpoint].is_resolved()) name_lines(out, label, endpoint, state, view);
  if (state.config().tls || state.config().alts) {
    metric_line(out, "endpoint_tls_handshakes_total", label,
                total([](const EndpointCounters& c) -> const Counter& { return c.tls_handshakes; }));
    metric_line(out, "endpoint_tls_resumed_total", label,
                total([](const EndpointCounters& c) -> const Counter& { return c.tls_resumed; }));
    metric_line(out, "endpoint_tls_truncated_total", label,
                total([](const EndpointCounters& c) -> const Counter& { return c.tls_truncated; }));
  }
  metric_line(out, "endpoint_received_bytes_total", label,
              total([](const EndpointCounters& c) -> const Counter& { return c.bytes_in; }));
  metric_line(out, "endpoint_sent_bytes_total", label,
              total([](const EndpointCounters& c) -> const Counter& { return c.bytes_out; }));
  health_lines(out, state, endpoint, label);
  for (size_t e = 0; e < kConnectErrorCount; ++e) {
    const uint64_t n = total([&](const EndpointCounters& c) -> const Counter& { return c.connect_errors[e]; });
    if (n == 0) continue;
    metric_line(out, "endpoint_connect_errors_total",
                absl::StrCat(label, ",kind=\"", connect_error_name(static_cast<ConnectError>(e)), "\""), n);
  }
}

void codec_lines(std::string& out, std::string_view label, const auto& total) {
  for (const auto& each : http1_counters()) {
    const uint64_t n = total([&](const CodecCounters& c) -> const Counter& { return c.http1.*each.member; });
    if (n) metric_line(out, absl::StrCat("http1_", each.name, "_total"), label, n);
  }
  for (const auto& each : http2_counters()) {
    const uint64_t n = total([&](const CodecCounters& c) -> const Counter& { return c.http2.*each.member; });
    if (n) metric_line(out, absl::StrCat("http2_", each.name, "_total"), label, n);
  }
}

void compression_lines(std::string& out, std::string_view label, const auto& total) {
  for (size_t i = 0; i < kContentCodings; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.compressed[i]; });
    const std::string_view coding = content_coding_name(static_cast<ContentCoding>(i));
    if (n) metric_line(out, "http_compressed_total", absl::StrCat(label, ",coding=\"", coding, "\""), n);
  }
  const auto member = [&](std::string_view name, Counter HttpCounters::* counter) {
    metric_line(out, name, label, total([&](const HttpCounters& c) -> const Counter& { return c.*counter; }));
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
  metric_line(out, "http_connections_total", label + ",version=\"1.1\"", member(&HttpCounters::connections_h1));
  metric_line(out, "http_connections_total", label + ",version=\"2\"", member(&HttpCounters::connections_h2));
  uint64_t over = 0;
  std::string reasons;
  for (size_t e = 0; e < kHttpEndCount; ++e) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.ended[e]; });
    over += n;
    if (n) {
      metric_line(reasons, "http_requests_ended_total",
                  absl::StrCat(label, ",reason=\"", http_end_name(static_cast<HttpEnd>(e)), "\""), n);
    }
  }
  const uint64_t requests = member(&HttpCounters::requests);  // Last, as above.
  metric_line(out, "http_requests_total", label, requests);
  metric_line(out, "http_requests_active", label, requests - over);
  out += reasons;
  for (size_t s = 1; s < 6; ++s) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.statuses[s]; });
    if (n) metric_line(out, "http_responses_total", absl::StrCat(label, ",class=\"", s, "xx\""), n);
  }
  metric_line(out, "http_request_body_bytes_total", label, member(&HttpCounters::request_bytes));
  metric_line(out, "http_response_body_bytes_total", label, member(&HttpCounters::response_bytes));
  metric_line(out, "http_retries_total", label, member(&HttpCounters::retries));
  metric_line(out, "http_tunnels_total", label, member(&HttpCounters::tunnels));
  metric_line(out, "http_memory_pauses_total", label, member(&HttpCounters::memory_pauses));
  metric_line(out, "http_header_timeouts_total", label, member(&HttpCounters::header_timeouts));
  metric_line(out, "http_trailer_fields_dropped_total", label, member(&HttpCounters::trailer_fields_dropped));
  metric_line(out, "http_paths_changed_total", label, member(&HttpCounters::paths_changed));
  for (size_t i = 0; i < kClaimCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.claims_refused[i]; });
    if (n)
      metric_line(out, "http_claims_refused_total",
                  absl::StrCat(label, ",field=\"", claim_name(static_cast<Claim>(i)), "\""), n);
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
      metric_line(out, "http_paths_relaxed_total", absl::StrCat(label, ",rule=\"", relaxed.kind, "\""), n);
    }
  }
  if (listener.http->compression) compression_lines(out, label, total);
  if (const uint64_t written =
          total([](const HttpCounters& c) -> const Counter& { return c.body_file.written_bytes; })) {
    metric_line(out, "http_body_file_written_bytes_total", label, written);
  }
  if (const uint64_t refused = total([](const HttpCounters& c) -> const Counter& { return c.body_file.refused; })) {
    metric_line(out, "http_body_file_refused_total", label, refused);
  }
  for (size_t i = 0; i < kForwardAuthResultCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.forward_auth[i]; });
    const char* const result = forward_auth_result_name(static_cast<ForwardAuthResult>(i));
    if (n) metric_line(out, "http_forward_auth_total", absl::StrCat(label, ",result=\"", result, "\""), n);
  }
  if (const uint64_t n = member(&HttpCounters::forward_auth_unchecked)) {
    metric_line(out, "http_forward_auth_unchecked_total", label, n);
  }
  for (size_t i = 0; i < kGlobalRateLimitResultCount; ++i) {
    const uint64_t n = total([&](const HttpCounters& c) -> const Counter& { return c.global_rate_limits[i]; });
    const char* const result = global_rate_limit_result_name(static_cast<GlobalRateLimitResult>(i));
    if (n) metric_line(out, "http_global_rate_limit_total", absl::StrCat(label, ",result=\"", result, "\""), n);
  }
  if (listener.http->tracing) {
    metric_line(out, "http_trace_spans_exported_total", label, member(&HttpCounters::trace_spans_exported));
    metric_line(out, "http_trace_spans_lost_total", label, member(&HttpCounters::trace_spans_lost));
    metric_line(out, "http_trace_spans_dropped_total", label, member(&HttpCounters::trace_spans_dropped));
  }
  codec_lines(out, label,
              [&](auto get) { return total([&](const HttpCounters& c) -> const Counter& { return get(c.codecs); }); });
}

void concurrency_lines(std::string& out, const Workers& workers, size_t index, const std::string& label) {
  const ConcurrencyFigures figures = ConcurrencyFigures::of(workers, index);
  metric_line(out, "upstream_concurrency_limit", label, figures.limit);
  metric_line(out, "upstream_concurrency_in_flight", label, figures.in_flight);
  metric_line(out, "upstream_concurrency_waiting", label, figures.waiting);
  metric_line(out, "upstream_concurrency_base_latency", label, figures.base_us / 1000);
  for (size_t i = 0; i < config::kPriorityCount; ++i) {
    const std::string priority = config::Scalar<config::Priority>::print(static_cast<config::Priority>(i));
    metric_line(out, "upstream_concurrency_refused_total", absl::StrCat(label, ",priority=\"", priority, "\""),
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
  metric_line(out, "upstream_requests_total", label, member(&UpstreamHttpCounters::requests));
  metric_line(out, "upstream_connections_opened_total", label, member(&UpstreamHttpCounters::connections_opened));
  metric_line(out, "upstream_connections_reused_total", label, member(&UpstreamHttpCounters::connections_reused));
  metric_line(out, "upstream_connections_stale_total", label, member(&UpstreamHttpCounters::connections_stale));
  metric_line(out, "upstream_pending_refused_total", label, member(&UpstreamHttpCounters::pending_refused));
  metric_line(out, "upstream_mirrored_total", label, member(&UpstreamHttpCounters::mirrored));
  metric_line(out, "upstream_mirrors_given_up_total", label, member(&UpstreamHttpCounters::mirrors_given_up));
  metric_line(out, "upstream_retries_total", label, member(&UpstreamHttpCounters::retries));
  metric_line(out, "upstream_retries_over_budget_total", label, member(&UpstreamHttpCounters::retries_over_budget));
  metric_line(out, "upstream_hedges_total", label, member(&UpstreamHttpCounters::hedges));
  metric_line(out, "upstream_hedges_won_total", label, member(&UpstreamHttpCounters::hedges_won));
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
    if (n) metric_line(out, each.name, label, n);
  }
}

void rate_limit_lines(std::string& out, const Workers& workers, size_t index, const config::RateLimit& limit) {
  const std::string label = absl::StrCat("limit=\"", escaped(limit.name), "\"");
  const auto total = [&](Counter RateLimitCounters::* member) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return (*w.rate_limits[index]).*member; });
  };
  metric_line(out, "rate_limited_total", label, total(&RateLimitCounters::limited));
  metric_line(out, "rate_limit_dry_run_total", label, total(&RateLimitCounters::dry_run));
  metric_line(out, "rate_limit_delayed_total", label, total(&RateLimitCounters::delayed));
  metric_line(out, "rate_limit_dry_run_delayed_total", label, total(&RateLimitCounters::dry_run_delayed));
  metric_line(out, "rate_limit_evictions_total", label, total(&RateLimitCounters::evictions));
  if (!limit.rate.is_bytes()) return;
  metric_line(out, "rate_limit_bytes_total", label, total(&RateLimitCounters::bytes));
  metric_line(out, "rate_limit_delayed_bytes_total", label, total(&RateLimitCounters::delayed_bytes));
  metric_line(out, "rate_limit_pauses_total", label, total(&RateLimitCounters::pauses));
  metric_line(out, "rate_limit_dry_run_delayed_bytes_total", label, total(&RateLimitCounters::dry_run_delayed_bytes));
}

void worker_lines(std::string& out, const Workers& workers) {
  const auto total = [&](Counter WorkerGauges::* member) {
    return sum(workers, [&](const WorkerCounters& w) -> const Counter& { return (*w.gauges).*member; });
  };
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    const uint64_t bytes =
        sum(workers, [&](const WorkerCounters& w) -> const Counter& { return w.gauges->tier_out_bytes[tier]; });
    if (bytes)
      metric_line(out, "pool_tier_bytes", absl::StrCat("tier=\"", tier_bytes(static_cast<int>(tier)), "\""), bytes);
  }
  metric_line(out, "pool_borrowed_bytes", "", total(&WorkerGauges::pool_borrowed_bytes));
  metric_line(out, "pool_claims_total", "", total(&WorkerGauges::pool_claims));
  metric_line(out, "pool_recalls_total", "", total(&WorkerGauges::pool_recalls));
  metric_line(out, "pool_bytes", "", total(&WorkerGauges::pool_out_bytes));
  metric_line(out, "pool_peak_bytes", "", total(&WorkerGauges::pool_out_bytes_peak));
  metric_line(out, "pool_mapped_bytes", "", total(&WorkerGauges::pool_mapped_bytes));
  metric_line(out, "pool_posted_bytes", "", total(&WorkerGauges::posted_bytes));
  metric_line(out, "pool_pinned_bytes", "", total(&WorkerGauges::pool_out_bytes) - total(&WorkerGauges::posted_bytes));
  metric_line(out, "pool_refused_total", "", total(&WorkerGauges::pool_refused));
  metric_line(out, "pool_discarded_bytes_total", "", total(&WorkerGauges::pool_discarded_bytes));
  metric_line(out, "receives_parked", "", total(&WorkerGauges::parked));
  metric_line(out, "receives_without_buffer_total", "", total(&WorkerGauges::no_buffers));
  metric_line(out, "copied_bytes_total", "", total(&WorkerGauges::copied_bytes));
  metric_line(out, "packed_total", "", total(&WorkerGauges::packed));
  metric_line(out, "receives_total", "", total(&WorkerGauges::receives));
  metric_line(out, "sends_total", "", total(&WorkerGauges::sends));
  metric_line(out, "zero_copy_sends_total", "", total(&WorkerGauges::zero_copy_sends));
  metric_line(out, "zero_copy_copied_total", "", total(&WorkerGauges::zero_copy_copied));
  metric_line(out, "loop_batches_total", "", total(&WorkerGauges::batches));
  metric_line(out, "loop_coalesced_batches_total", "", total(&WorkerGauges::coalesced_batches));
  metric_line(out, "loop_completions_total", "", total(&WorkerGauges::completions));
  metric_line(out, "completion_overflows_total", "", total(&WorkerGauges::overflows));
}

void overload_lines(std::string& out, const Workers& workers) {
  for (size_t i = 0; i < kOverloadActionCount; ++i) {
    const uint64_t n =
        sum(workers, [i](const WorkerCounters& w) -> const Counter& { return w.gauges->overload.actions[i]; });
    const char* const action = overload_action_name(static_cast<OverloadAction>(i));
    metric_line(out, "overload_actions_total", absl::StrCat("action=\"", action, "\""), n);
  }
  uint64_t delay_ms = 0, shed_percent = 0;
  for (const auto& worker : workers) {
    delay_ms = std::max(delay_ms, worker->gauges->overload.delay_ms.value());
    shed_percent = std::max(shed_percent, worker->gauges->overload.shed_percent.value());
  }
  metric_line(out, "overload_closed_bytes_total", "",
              sum(workers, [](const WorkerCounters& w) -> const Counter& { return w.gauges->overload.closed_bytes; }));
  metric_line(out, "overload_loop_delay", "", delay_ms);
  metric_line(out, "overload_refused_percent", "", shed_percent);
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
  gauges.coalesced_batches.set(counters.coalesced_batches);
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
  metric_line(out, "config_reloads_total", "", control.reloads.value());
  metric_line(out, "config_reload_failures_total", "", control.reload_failures.value());
  metric_line(out, "upgrades_total", "", control.upgrades.value());
  metric_line(out, "upgrade_failures_total", "", control.upgrade_failures.value());
  metric_line(out, "configurations", "", control.configurations.value());
  metric_line(out, "configurations_drained_total", "", control.configurations_drained.value());
  for (size_t kind = 0; kind < kSessionKindCount; ++kind) {
    const uint64_t n = resets_of(workers, static_cast<SessionKind>(kind));
    const char* const name = session_kind_name(static_cast<SessionKind>(kind));
    if (n) metric_line(out, "sessions_reset_total", absl::StrCat("kind=\"", name, "\""), n);
  }
  metric_line(out, "tls_reloads_total", "", control.tls_reloads.value());
  metric_line(out, "tls_reload_failures_total", "", control.tls_reload_failures.value());
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    listener_lines(out, workers, i, config.listeners[i]);
    if (config.listeners[i].http) http_listener_lines(out, workers, i, config.listeners[i]);
  }
  for (size_t i = 0; i < config.rate_limits.size(); ++i) rate_limit_lines(out, workers, i, config.rate_limits[i]);
  for (size_t u = 0; u < upstreams.size(); ++u) {
    http_upstream_lines(out, workers, u, *upstreams[u]);
    balancer_lines(out, workers, u, *upstreams[u]);
    if (const Ejections* const ejections = upstreams[u]->ejections()) {
      metric_line(out, "upstream_ejections_refused_total",
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
  metric_line(out, "pool_budget_bytes", "", budget);
  metric_line(out, "pool_guaranteed_bytes", "", config.memory.worker_budget.bytes * workers.size());
  metric_line(out, "pool_available_bytes", "", budget > held ? budget - held : 0);
  worker_lines(out, workers);
  overload_lines(out, workers);
  return out;
}

}  // namespace sluice
