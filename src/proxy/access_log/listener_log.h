#pragma once

#include <cstdint>

#include "proxy/access_log/access_line.h"
#include "proxy/access_log/access_log.h"
#include "proxy/common/random.h"
#include "proxy/config/model/access_log.h"

namespace sluice {

/// The access log of one listener on one worker: chooses what is logged, formats the lines, and queues them.
class ListenerLog {
 public:
  /// `writer` outlives it.
  ListenerLog(AccessLogWriter& writer, const config::AccessLog& config);

  const config::LogFormat& format() const { return config_.format; }

  /// Queues the record's line if selects() says so. If the writer has no room for it, the line counts as dropped.
  /// Allocates nothing.
  void write(const AccessRecord& record);

  /// Whether the log's condition and its sampling take the record. Sampling makes it random.
  bool selects(const AccessRecord& record);

 private:
  bool holds(uint32_t node, const AccessRecord& record);

  AccessLogWriter& writer_;
  const config::AccessLog config_;
  Random random_;
};

}  // namespace sluice
