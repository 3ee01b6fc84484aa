#include "proxy/http/proxy/trace_exporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/log/run_log.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A request has at most that many spans. OpenTelemetry's batch processors send 512 at a time.
constexpr uint32_t kMostSpans = 512;
constexpr size_t kMostBytes = size_t{256} * 1024;
// A span waits at most that long for others. OpenTelemetry's batch processors wait for 5 s.
constexpr uint64_t kDelayMs = 1000;
// The limit on a request to the collector, below response_timeout; shorter once the process waits for it to end.
constexpr uint64_t kTimeoutMs = 10'000, kLastTimeoutMs = 2000;

}  // namespace

TraceExporter::TraceExporter(HttpWorker& worker, HttpUpstream& to, const config::Tracing& config,
                             HttpCounters& counters, std::string listener)
    : worker_(worker),
      to_(to),
      config_(config),
      counters_(counters),
      listener_(std::move(listener)),
      timer_([](void* self) { static_cast<TraceExporter*>(self)->flush(); }, this) {}

TraceExporter::~TraceExporter() { SLUICE_CHECK(idle()); }

bool TraceExporter::is_full() const { return batch_.count() >= kMostSpans || batch_.bytes() >= kMostBytes; }

void TraceExporter::add(const Span& span) {
  if (is_full() || !batch_.add(worker_.worker().pool(), span)) return counters_.trace_spans_dropped.add();
  if (export_) return;  // Its end sends the next.
  if (stopping_ || (is_full() && !failing_)) return flush();
  if (!timer_.armed()) worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + kDelayMs);
}

void TraceExporter::stop() {
  stopping_ = true;
  export_ ? export_->set_timeout(timeout_ms()) : flush();
}

uint64_t TraceExporter::timeout_ms() const {
  return std::min(stopping_ ? kLastTimeoutMs : kTimeoutMs, config::milliseconds(to_.config().response_timeout));
}

void TraceExporter::flush() {
  timer_.cancel();
  if (export_ || batch_.count() == 0) return;
  const uint32_t spans = batch_.count();
  export_ = TraceExport::make(worker_, to_, *this, config_.path, spans,
                              batch_.take(worker_.worker().pool(), config_.service_name));
  export_->set_timeout(timeout_ms());
  export_->start();
}

void TraceExporter::on_exported(uint32_t spans, std::string_view error) {
  export_ = nullptr;
  (error.empty() ? counters_.trace_spans_exported : counters_.trace_spans_lost).add(spans);
  if (std::exchange(failing_, !error.empty()) != failing_) {
    const std::string what = absl::StrCat("listener \"", listener_, "\": tracing: upstream \"", config_.to, "\"");
    failing_ ? log_line(LogLevel::kWarning, absl::StrCat(what, " takes no spans: ", error))
             : log_line(LogLevel::kInfo, absl::StrCat(what, " takes spans again"));
  }
  if (batch_.count() == 0) return;
  if (stopping_ && failing_) {
    counters_.trace_spans_lost.add(batch_.count());
    return batch_.clear();
  }
  // A collector that is down is not called in a loop.
  if (stopping_ || (!failing_ && is_full())) return flush();
  worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + kDelayMs);
}

}  // namespace sluice
