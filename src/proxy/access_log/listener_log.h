#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "proxy/access_log/access_line.h"
#include "proxy/access_log/access_log.h"
#include "proxy/access_log/access_record_sink.h"
#include "proxy/common/random.h"
#include "proxy/config/model/access_log.h"

namespace sluice {

/// Where an access log goes: one of the two, or nowhere. A writer outlives those who use it.
struct AccessLogTarget {
  /// `lines`: null if there is no log.
  AccessLogTarget(AccessLogWriter* lines) : writer(lines) {}
  AccessLogTarget(std::unique_ptr<AccessRecordSink> sink) : records(std::move(sink)) {}
  bool is_set() const { return writer || records; }

  AccessLogWriter* writer = nullptr;
  std::unique_ptr<AccessRecordSink> records;
};

/// The access log of one listener on one worker: chooses what is logged, formats the lines, and queues them.
class ListenerLog {
 public:
  /// `to` is set.
  ListenerLog(AccessLogTarget to, const config::AccessLog& config);
  ListenerLog(AccessLogWriter& writer, const config::AccessLog& config) : ListenerLog(&writer, config) {}

  const config::LogFormat& format() const { return config_.format; }

  /// Whether write() reads the `facts` of a record, and so any field of a request.
  bool uses_facts() const {
    return to_.records || !config_.when.empty() || format().kind() == config::LogFormat::Kind::kText;
  }

  /// Queues the record, or its line, if selects() says so. Without room for it, it counts as dropped. Allocates
  /// nothing.
  void write(const AccessRecord& record);

  /// Whether the log's condition and its sampling take the record. Sampling makes it random.
  bool selects(const AccessRecord& record);

  /// What is queued is sent without delay from now on; whether all of it was. For records only: lines wait elsewhere.
  void stop() {
    if (to_.records) to_.records->stop();
  }
  bool idle() const { return !to_.records || to_.records->idle(); }

 private:
  bool holds(uint32_t node, const AccessRecord& record);
  void add_record(const AccessRecord& record);

  const AccessLogTarget to_;
  const config::AccessLog config_;
  Random random_;
};

}  // namespace sluice
