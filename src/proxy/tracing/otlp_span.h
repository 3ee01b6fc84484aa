// Spans in the protobuf encoding of OTLP, version 1 (opentelemetry/proto/trace/v1/trace.proto).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/tracing/otlp_attribute.h"

namespace sluice {

/// A span. The texts belong to the caller.
struct Span {
  enum class Kind : uint8_t { kServer = 2, kClient = 3 };  ///< SpanKind

  std::string_view trace_id;       ///< 32 lower-case hexadecimal digits.
  std::string_view id, parent_id;  ///< 16 digits; the parent may be empty.
  Kind kind = Kind::kServer;
  std::string_view name;
  uint64_t start_ns = 0, end_ns = 0;          ///< Since 1970.
  std::span<const OtlpAttribute> attributes;  ///< Empty texts are left out.
  bool failed = false;                        ///< The status ERROR; else it is unset.
};

void write_record(ProtoWriter& out, const Span& span);

}  // namespace sluice
