// Log records in the protobuf encoding of OTLP, version 1 (opentelemetry/proto/logs/v1/logs.proto).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/tracing/otlp_attribute.h"

namespace sluice {

/// A log record. The texts belong to the caller.
struct OtlpLog {
  enum class Severity : uint8_t { kInfo = 9, kError = 17 };  ///< SeverityNumber

  uint64_t time_ns = 0, observed_ns = 0;  ///< Since 1970: of the event, and now.
  Severity severity = Severity::kInfo;
  std::string_view body;                      ///< UTF-8 of at most kMaxBody bytes.
  std::span<const OtlpAttribute> attributes;  ///< Empty texts are left out.
  std::string_view trace_id, span_id;         ///< 32 and 16 lower-case hexadecimal digits; or empty.

  static constexpr size_t kMaxBody = size_t{8} * 1024;
};

void write_record(ProtoWriter& out, const OtlpLog& log);

}  // namespace sluice
