#include "proxy/tracing/otlp_log.h"

namespace sluice {

void write_record(ProtoWriter& out, const OtlpLog& log) {
  constexpr uint32_t kSampled = 1;  // Of the trace's flags: its spans are exported.
  out.fixed64(1, log.time_ns);
  out.number(2, static_cast<uint8_t>(log.severity));
  out.text(3, log.severity == OtlpLog::Severity::kError ? "ERROR" : "INFO");
  const std::string_view body = log.body.substr(0, OtlpLog::kMaxBody);
  out.begin_sized(5, 1 + varint_size(body.size()) + body.size());  // AnyValue { string_value = 1 }
  out.text(1, body);
  for (const OtlpAttribute& each : log.attributes) write_attribute(out, 6, each);
  if (!log.span_id.empty()) out.fixed32(8, kSampled);
  if (!log.trace_id.empty()) out.hex(9, log.trace_id);
  if (!log.span_id.empty()) out.hex(10, log.span_id);
  out.fixed64(11, log.observed_ns);
}

}  // namespace sluice
