#include "proxy/metrics/http_counters.h"

#include <cstddef>
#include <iterator>

namespace sluice {

const char* http_end_name(HttpEnd end) {
  static constexpr const char* kNames[kHttpEndCount] = {
      "ok",
      "client_reset",
      "bad_request",
      "bad_path",
      "no_route",
      "misdirected",
      "not_allowed",
      "forbidden",
      "unauthorized",
      "auth_busy",
      "auth_refused",
      "auth_failed",
      "rate_limited",
      "rate_limit_failed",
      "maintenance",
      "no_endpoint",
      "not_resolved",
      "too_many_pending",
      "concurrency_limit",
      "upstream_reset",
      "upstream_malformed",
      "upstream_refused",
      "response_timeout",
      "body_timeout",
      "body_too_large",
      "send_timeout",
      "overload",
      "stuck",
      "idle_timeout",
      "request_timeout",
      "deadline",
      "shutdown",
      "moved",
  };
  return kNames[static_cast<size_t>(end)];
}

const char* forward_auth_result_name(ForwardAuthResult result) {
  static constexpr const char* kNames[kForwardAuthResultCount] = {"allowed", "refused", "failed", "timeout",
                                                                  "cancelled"};
  return kNames[static_cast<size_t>(result)];
}

const char* global_rate_limit_result_name(GlobalRateLimitResult result) {
  static constexpr const char* kNames[kGlobalRateLimitResultCount] = {"ok", "over_limit", "error", "timeout",
                                                                      "cancelled"};
  return kNames[static_cast<size_t>(result)];
}

const char* claim_name(Claim claim) {
  static constexpr const char* kNames[kClaimCount] = {"x-forwarded-for", "x-forwarded-proto", "forwarded", "request-id",
                                                      "traceparent"};
  return kNames[static_cast<size_t>(claim)];
}

namespace {

constexpr NamedCounter<Http1Counters> kHttp1[] = {
    {"messages", &Http1Counters::messages},
    {"informational", &Http1Counters::informational},
    {"malformed", &Http1Counters::malformed},
    {"too_large", &Http1Counters::too_large},
    {"unsupported", &Http1Counters::unsupported},
    {"lost", &Http1Counters::lost},
    {"over_memory", &Http1Counters::over_memory},
    {"connects", &Http1Counters::connects},
    {"underscores", &Http1Counters::underscores},
    {"empty_lines", &Http1Counters::empty_lines},
    {"requests_met", &Http1Counters::requests_met},
    {"pipelines_full", &Http1Counters::pipelines_full},
    {"trailer_fields_dropped", &Http1Counters::trailer_fields_dropped},
    {"trailers_dropped", &Http1Counters::trailers_dropped},
    {"bodies_dropped", &Http1Counters::bodies_dropped},
};
static_assert(sizeof(Http1Counters) == sizeof(Counter) * std::size(kHttp1));

constexpr NamedCounter<Http2Counters> kHttp2[] = {
    {"streams", &Http2Counters::streams},
    {"completed", &Http2Counters::completed},
    {"resets_received", &Http2Counters::resets_received},
    {"resets_sent", &Http2Counters::resets_sent},
    {"refused_streams", &Http2Counters::refused_streams},
    {"malformed", &Http2Counters::malformed},
    {"too_large", &Http2Counters::too_large},
    {"trailers_dropped", &Http2Counters::trailers_dropped},
    {"goaways_received", &Http2Counters::goaways_received},
    {"goaways_sent", &Http2Counters::goaways_sent},
    {"frames_unused", &Http2Counters::frames_unused},
    {"frames_on_closed", &Http2Counters::frames_on_closed},
    {"glitches", &Http2Counters::glitches},
    {"over_header_block", &Http2Counters::over_header_block},
    {"over_continuations", &Http2Counters::over_continuations},
    {"over_pings", &Http2Counters::over_pings},
    {"over_settings", &Http2Counters::over_settings},
    {"over_replies", &Http2Counters::over_replies},
    {"over_glitches", &Http2Counters::over_glitches},
    {"over_resets", &Http2Counters::over_resets},
    {"over_frames_unused", &Http2Counters::over_frames_unused},
    {"over_frames_on_closed", &Http2Counters::over_frames_on_closed},
    {"over_window_updates", &Http2Counters::over_window_updates},
    {"over_empty_data", &Http2Counters::over_empty_data},
    {"over_queued_control", &Http2Counters::over_queued_control},
    {"over_memory", &Http2Counters::over_memory},
    {"protocol_failures", &Http2Counters::protocol_failures},
};
static_assert(sizeof(Http2Counters) == sizeof(Counter) * std::size(kHttp2));

}  // namespace

std::span<const NamedCounter<Http1Counters>> http1_counters() { return kHttp1; }
std::span<const NamedCounter<Http2Counters>> http2_counters() { return kHttp2; }

}  // namespace sluice
