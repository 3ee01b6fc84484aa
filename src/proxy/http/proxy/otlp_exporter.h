#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/timer_wheel.h"
#include "proxy/common/counter.h"
#include "proxy/http/proxy/otlp_export.h"
#include "proxy/tracing/otlp_batch.h"

namespace sluice {

class HttpUpstream;
class HttpWorker;

/// What an OtlpExporter sends, how much of it may wait, and who counts it.
struct OtlpStream {
  std::string subject;       ///< Whose records they are, for the log: `listener "web": tracing`.
  std::string_view records;  ///< What they are called there: `spans`.
  std::string path, service_name;
  uint32_t most_records;  ///< In a request, and that wait while one is under way.
  size_t most_bytes;
  Counter& exported;            ///< Records that the collector took.
  Counter& lost;                ///< Records whose request failed.
  Counter& dropped;             ///< Records for which there was no room.
  Counter* failures = nullptr;  ///< Requests that failed; null: not counted.
};

/// Sends records of one listener on one worker to the collector, in requests of many records: OTLP over HTTP
/// (opentelemetry.io/docs/specs/otlp, section OTLP/HTTP), one request at a time. Never waits for the collector: records
/// for which there is no room are dropped and counted. Nothing is sent twice.
class OtlpExporter final : private OtlpExport::Owner {
 public:
  /// All references outlive it.
  OtlpExporter(HttpWorker& worker, HttpUpstream& to, OtlpStream stream);
  /// Precondition: idle().
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  void add(const Span& span) { add_record(span); }
  void add(const OtlpLog& log) { add_record(log); }
  /// Sends without delay from now on.
  void stop();
  /// Whether no record waits or is under way.
  bool idle() const { return batch_.count() == 0 && !export_; }

 private:
  // OtlpExport::Owner
  void on_exported(uint32_t records, std::string_view error) override;

  template <class Record>
  void add_record(const Record& record);
  bool is_full() const { return batch_.count() >= stream_.most_records || batch_.bytes() >= stream_.most_bytes; }
  uint64_t timeout_ms() const;
  void flush();

  HttpWorker& worker_;
  HttpUpstream& to_;
  const OtlpStream stream_;
  OtlpBatch batch_;
  OtlpExport* export_ = nullptr;  // The request that is under way.
  Timer timer_;
  bool stopping_ = false;
  bool failing_ = false;  // The last export has failed, which the log says once.
};

}  // namespace sluice
