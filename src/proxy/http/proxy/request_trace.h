#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "proxy/http/message/head.h"
#include "proxy/http/proxy/request_log.h"
#include "proxy/tracing/otlp_span.h"
#include "proxy/tracing/trace_context.h"

namespace sluice {

class RequestContext;
class OtlpExporter;

/// The spans of one recorded request: one for the request, and one for each attempt at an endpoint, hedges included.
/// Each is exported when it ends.
class RequestTrace {
 public:
  /// How an attempt went.
  struct Result {
    std::string_view endpoint = {};  ///< Its address; empty if none was chosen.
    uint16_t status = 0;             ///< Of its response; 0: there was none.
    std::string_view error = {};     ///< Why it failed; empty if it did not.
  };

  /// `context` and `exporter` outlive it. The traceparent of the request names the span of the request.
  RequestTrace(RequestContext& context, OtlpExporter& exporter, const TraceParent& request);

  /// Of the request.
  std::string_view span_id() const { return {request_.parent_id.data(), request_.parent_id.size()}; }

  /// An attempt begins: an endpoint is looked for.
  void begin_attempt() { attempt_ = begin(); }
  /// The request is about to be sent: its traceparent names the attempt now, unless the configuration removes the
  /// field.
  void send_attempt();
  /// The same for a hedge. Both begin and are sent at once.
  void send_hedge(std::string_view endpoint);
  void end_attempt(const Result& result) { end(attempt_, result); }
  /// There was no endpoint for the attempt.
  void drop_attempt();
  /// The hedge takes the place of the attempt, which was made at `endpoint`.
  void use_hedge(std::string_view endpoint);
  /// The request has ended, and so has the last attempt. A hedge that was not used ends now.
  void end(const RequestOutcome& outcome, const Result& last);

 private:
  struct Attempt {
    std::array<char, TraceParent::kParentIdDigits> id;
    uint64_t start_ns = 0;  // 0: there is none.
    uint32_t number = 0;    // From 1.
  };
  static constexpr size_t kMaxEndpoint = 64;

  Attempt begin();
  void name(const Attempt& attempt);
  void end(Attempt& attempt, const Result& result);
  void end_request(const RequestOutcome& outcome);

  RequestContext& context_;
  OtlpExporter& exporter_;
  const TraceParent request_;  // Its parent_id is the span of the request.
  const uint64_t start_ns_;
  uint32_t attempts_ = 0;
  Attempt attempt_, hedge_;
  std::array<char, kMaxEndpoint> hedge_endpoint_;
  size_t hedge_endpoint_bytes_ = 0;
};

}  // namespace sluice
