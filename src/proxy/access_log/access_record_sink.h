#pragma once

#include <string_view>

#include "proxy/access_log/access_line.h"

namespace sluice {

/// Takes the records of one access log on one worker, where they do not go to an AccessLogWriter as lines.
class AccessRecordSink {
 public:
  virtual ~AccessRecordSink() = default;
  /// Takes a copy of what it needs. `line`: the record in the log's format, without a newline.
  virtual void add(const AccessRecord& record, std::string_view line) = 0;
  /// Sends without delay from now on.
  virtual void stop() = 0;
  /// Whether nothing waits and nothing is under way. It must be before its destruction.
  virtual bool idle() const = 0;
};

}  // namespace sluice
