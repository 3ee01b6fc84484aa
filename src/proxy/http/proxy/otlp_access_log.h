#pragma once

#include <memory>
#include <string_view>

#include "proxy/access_log/access_record_sink.h"
#include "proxy/config/model/access_log.h"
#include "proxy/http/proxy/otlp_exporter.h"
#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// Sends the records of an access log to an OpenTelemetry collector.
class OtlpAccessLog final : public AccessRecordSink {
 public:
  /// `worker` outlives it. `listener`: its name.
  OtlpAccessLog(HttpWorker& worker, std::shared_ptr<HttpUpstream> to, const config::AccessLog& config,
                std::shared_ptr<ListenerCounters> counters, std::string_view listener);

  // AccessRecordSink
  void add(const AccessRecord& record, std::string_view line) override;
  void stop() override { exporter_.stop(); }
  bool idle() const override { return exporter_.idle(); }

 private:
  const std::shared_ptr<HttpUpstream> to_;
  const std::shared_ptr<ListenerCounters> counters_;
  OtlpExporter exporter_;
};

}  // namespace sluice
