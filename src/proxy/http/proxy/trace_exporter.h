#pragma once

#include <cstdint>
#include <string>

#include "net/timer_wheel.h"
#include "proxy/config/model/config.h"
#include "proxy/http/proxy/trace_export.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/tracing/otlp_span.h"

namespace sluice {

class HttpUpstream;
class HttpWorker;

/// Sends the spans of one listener on one worker to the collector, in requests of many spans: OTLP over HTTP
/// (opentelemetry.io/docs/specs/otlp, section OTLP/HTTP), one request at a time. Never waits for the collector: spans
/// for which there is no room are dropped and counted. Nothing is sent twice.
class TraceExporter final : private TraceExport::Owner {
 public:
  /// All references outlive it. `listener`: its name, for the log.
  TraceExporter(HttpWorker& worker, HttpUpstream& to, const config::Tracing& config, HttpCounters& counters,
                std::string listener);
  /// Precondition: idle().
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  void add(const Span& span);
  /// Sends without delay from now on.
  void stop();
  /// Whether no span waits or is under way.
  bool idle() const { return batch_.count() == 0 && !export_; }

 private:
  // TraceExport::Owner
  void on_exported(uint32_t spans, std::string_view error) override;

  bool is_full() const;
  uint64_t timeout_ms() const;
  void flush();

  HttpWorker& worker_;
  HttpUpstream& to_;
  const config::Tracing& config_;
  HttpCounters& counters_;
  const std::string listener_;
  SpanBatch batch_;
  TraceExport* export_ = nullptr;  // The request that is under way.
  Timer timer_;
  bool stopping_ = false;
  bool failing_ = false;  // The last export has failed, which the log says once.
};

}  // namespace sluice
