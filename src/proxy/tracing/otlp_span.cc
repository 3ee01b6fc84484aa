#include "proxy/tracing/otlp_span.h"

#include <array>

namespace sluice {

void write_record(ProtoWriter& out, const Span& span) {
  out.hex(1, span.trace_id);
  out.hex(2, span.id);
  if (!span.parent_id.empty()) out.hex(4, span.parent_id);
  std::array<char, kMaxOtlpText> name;
  out.text(5, valid_text(span.name, name));
  out.number(6, static_cast<uint8_t>(span.kind));
  out.fixed64(7, span.start_ns);
  out.fixed64(8, span.end_ns);
  for (const OtlpAttribute& each : span.attributes) write_attribute(out, 9, each);
  if (!span.failed) return;
  constexpr uint64_t kStatusError = 2;  // Status { code = 3 }
  out.begin_sized(15, 2);
  out.number(3, kStatusError);
}

}  // namespace sluice
