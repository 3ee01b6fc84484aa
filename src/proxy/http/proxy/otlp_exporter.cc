#include "proxy/http/proxy/otlp_exporter.h"

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

// A record waits at most that long for others. OpenTelemetry's batch processors wait for 5 s.
constexpr uint64_t kDelayMs = 1000;
// The limit on a request to the collector, below response_timeout; shorter once the process waits for it to end.
constexpr uint64_t kTimeoutMs = 10'000, kLastTimeoutMs = 2000;

}  // namespace

OtlpExporter::OtlpExporter(HttpWorker& worker, HttpUpstream& to, OtlpStream stream)
    : worker_(worker),
      to_(to),
      stream_(std::move(stream)),
      timer_([](void* self) { static_cast<OtlpExporter*>(self)->flush(); }, this) {}

OtlpExporter::~OtlpExporter() { SLUICE_CHECK(idle()); }

template <class Record>
void OtlpExporter::add_record(const Record& record) {
  if (is_full() || !batch_.add(worker_.worker().pool(), record)) return stream_.dropped.add();
  if (export_) return;  // Its end sends the next.
  if (stopping_ || (is_full() && !failing_)) return flush();
  if (!timer_.armed()) worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + kDelayMs);
}
template void OtlpExporter::add_record(const Span& record);
template void OtlpExporter::add_record(const OtlpLog& record);

void OtlpExporter::stop() {
  stopping_ = true;
  export_ ? export_->set_timeout(timeout_ms()) : flush();
}

uint64_t OtlpExporter::timeout_ms() const {
  return std::min(stopping_ ? kLastTimeoutMs : kTimeoutMs, config::milliseconds(to_.config().response_timeout));
}

void OtlpExporter::flush() {
  timer_.cancel();
  if (export_ || batch_.count() == 0) return;
  const uint32_t records = batch_.count();
  export_ = OtlpExport::make(worker_, to_, *this, stream_.path, records,
                             batch_.take(worker_.worker().pool(), stream_.service_name));
  export_->set_timeout(timeout_ms());
  export_->start();
}

void OtlpExporter::on_exported(uint32_t records, std::string_view error) {
  export_ = nullptr;
  (error.empty() ? stream_.exported : stream_.lost).add(records);
  if (!error.empty() && stream_.failures) stream_.failures->add();
  if (std::exchange(failing_, !error.empty()) != failing_) {
    const std::string what = absl::StrCat(stream_.subject, ": upstream \"", to_.config().name, "\"");
    failing_ ? log_line(LogLevel::kWarning, absl::StrCat(what, " takes no ", stream_.records, ": ", error))
             : log_line(LogLevel::kInfo, absl::StrCat(what, " takes ", stream_.records, " again"));
  }
  if (batch_.count() == 0) return;
  if (stopping_ && failing_) {
    stream_.lost.add(batch_.count());
    return batch_.clear();
  }
  // A collector that is down is not called in a loop.
  if (stopping_ || (!failing_ && is_full())) return flush();
  worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + kDelayMs);
}

}  // namespace sluice
