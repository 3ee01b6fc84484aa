#include "proxy/http/proxy/http_listener.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/auth/reserved_headers.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/router/field_changes.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

bool changes_speak_of_tls(const config::Http& http) {
  return use_tls_variables(http.request_headers) || use_tls_variables(http.response_headers) ||
         std::any_of(http.routes.begin(), http.routes.end(), [](const config::HttpRoute& route) {
           return use_tls_variables(route.request_headers) || use_tls_variables(route.response_headers) ||
                  std::ranges::any_of(route.split, [](const config::SplitTarget& part) {
                    return use_tls_variables(part.request_headers) || use_tls_variables(part.response_headers);
                  });
         });
}

// A request has at most so many spans. OpenTelemetry's batch processors send 512 at a time.
OtlpStream spans_of(const config::Tracing& tracing, std::string_view listener, HttpCounters& counters) {
  return {.subject = absl::StrCat("listener \"", listener, "\": tracing"),
          .records = "spans",
          .path = tracing.path,
          .service_name = tracing.service_name,
          .most_records = 512,
          .most_bytes = size_t{256} * 1024,
          .exported = counters.trace_spans_exported,
          .lost = counters.trace_spans_lost,
          .dropped = counters.trace_spans_dropped};
}

}  // namespace

HttpCodecSettings::HttpCodecSettings(HttpWorker& worker, const config::Listener& listener, HttpCounters& counters)
    : http2_shared{worker.worker().pool(), http2, counters.codecs.http2} {
  http2_shared.head_budget = &worker.pump().head_budget();
  http2_shared.scarce = &worker.worker().scarce();
  const config::Http& config = *listener.http;
  http1.secure = listener.tls || listener.alts;
  http1.allow_connect = config.allow_connect;
  http1.allow_underscores = config.http1.allow_underscores;
  http1.allow_empty_line = config.http1.allow_empty_line;
  http1.limits.start_line_bytes = config.max_start_line.bytes;
  http1.limits.head_bytes = config.max_head.bytes;
  http1.limits.fields = config.max_fields;
  http1.limits.requests = config.http1.max_requests == 0 ? UINT32_MAX : config.http1.max_requests;

  http2.streams = config.http2.max_streams;
  http2.stream_window_bytes = static_cast<uint32_t>(config.http2.stream_window.bytes);
  http2.connection_window_bytes = static_cast<uint32_t>(config.http2.connection_window.bytes);
  // What a slow endpoint leaves unread of one upload must leave room for the others.
  http2.window_growth_bytes = http2.connection_window_bytes / 2;
  http2.header_list_bytes = static_cast<uint32_t>(config.max_head.bytes);
  http2.header_fields = config.max_fields;
  http2.header_fields_hard = std::max(config.max_fields + 28, config.max_fields * 5 / 4);
  http2.requests = config.http2.max_requests;
}

HttpListener::HttpListener(HttpWorker& http_worker, config::Snapshot<config::Listener> listener_config,
                           const HttpRouter& routes, const ErrorPages& errors, SharedAuth& auth,
                           const WorkerUpstreams& to, HttpCounters& counts, std::shared_ptr<const RouteLatencies> times,
                           AccessLogTarget access_log, BeginExchange begin)
    : http(http_worker),
      listener(std::move(listener_config)),
      config(listener.part(*listener->http)),
      router(routes),
      error_pages(errors),
      counters(counts),
      latencies(std::move(times)),
      begin_exchange(begin),
      access(ListenerAccess::make(config, auth)),
      reserved_headers(sluice::reserved_headers(*config)),
      reserved_trailers(sluice::reserved_trailers(*config)),
      identifies(sluice::identifies(*config)),
      via_http1(via_of(*config, false)),
      via_http2(via_of(*config, true)),
      keeps_bodies(sluice::keeps_bodies(*config)),
      keeps_agreement(access_log.is_set() || changes_speak_of_tls(*config)),
      codecs(LocalRef<HttpCodecSettings>::make(http_worker, *listener, counts)) {
  if (access_log.is_set() && config->access_log) log.emplace(std::move(access_log), *config->access_log);
  if (config->compression) compression.emplace(*config->compression);
  for (const std::shared_ptr<WorkerUpstream>& upstream : to) upstreams.push_back(http_worker.http_upstream(upstream));
  if (!config->tracing) return;
  const auto collector = std::find_if(upstreams.begin(), upstreams.end(),
                                      [&](const auto& each) { return each->config().name == config->tracing->to; });
  SLUICE_CHECK(collector != upstreams.end());
  tracing =
      std::make_unique<OtlpExporter>(http_worker, **collector, spans_of(*config->tracing, listener->name, counts));
}

HttpListener::~HttpListener() { SLUICE_CHECK(exchanges.empty() && settled_tunnels == 0); }

uint32_t HttpListener::rate_limit_service() const {
  if (!config->global_rate_limits) return HttpTarget::kNone;
  const auto service = std::find_if(upstreams.begin(), upstreams.end(), [&](const auto& each) {
    return each->config().name == config->global_rate_limits->to;
  });
  SLUICE_CHECK(service != upstreams.end());
  return static_cast<uint32_t>(service - upstreams.begin());
}

bool needs_sni(const config::Http& http, const WorkerRateLimits& all) {
  const auto any = [&all](const std::vector<std::string>& names) {
    const WorkerRateLimits named = all.empty() ? WorkerRateLimits() : rate_limits_named(all, names);
    return std::any_of(named.begin(), named.end(), [](const auto& each) { return each.limiter->key().sni; });
  };
  const auto described = [](const std::vector<config::RateDescriptor>& all_of_them) {
    return std::any_of(all_of_them.begin(), all_of_them.end(), [](const config::RateDescriptor& each) {
      return std::any_of(each.entries.begin(), each.entries.end(), [](const auto& entry) { return entry.sni; });
    });
  };
  const auto level = [&](const auto& each) {
    return any(each.rate_limits) || any(each.response_bandwidth) || any(each.request_bandwidth);
  };
  if (level(http) || (http.global_rate_limits && described(http.global_rate_limits->descriptors))) return true;
  return std::any_of(http.routes.begin(), http.routes.end(), [&](const config::HttpRoute& route) {
    return route.ext_authz || level(route) || described(route.rate_limit_descriptors);
  });
}

}  // namespace sluice
