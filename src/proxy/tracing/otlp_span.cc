#include "proxy/tracing/otlp_span.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "proxy/common/proto_writer.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// Room for the length of a span in front of it.
constexpr size_t kMaxLength = 5;

// ---- common.proto: KeyValue { key = 1, value = 2 }, AnyValue { string_value = 1, int_value = 3 }

void write_attribute(ProtoWriter& out, uint32_t field, const SpanAttribute& attribute) {
  const std::string_view text = attribute.text.substr(0, SpanBatch::kMaxText);
  const auto number = static_cast<uint64_t>(attribute.number);
  const size_t value_bytes = attribute.is_number ? 1 + varint_size(number) : 1 + varint_size(text.size()) + text.size();
  out.begin_sized(
      field, 1 + varint_size(attribute.key.size()) + attribute.key.size() + 1 + varint_size(value_bytes) + value_bytes);
  out.text(1, attribute.key);
  out.begin_sized(2, value_bytes);
  attribute.is_number ? out.number(3, number) : out.text(1, text);
}

// ---- trace.proto: Span

void write_span(ProtoWriter& out, const Span& span) {
  out.hex(1, span.trace_id);
  out.hex(2, span.id);
  if (!span.parent_id.empty()) out.hex(4, span.parent_id);
  out.text(5, span.name.substr(0, SpanBatch::kMaxText));
  out.number(6, static_cast<uint8_t>(span.kind));
  out.fixed64(7, span.start_ns);
  out.fixed64(8, span.end_ns);
  for (const SpanAttribute& each : span.attributes) {
    if (each.is_number || !each.text.empty()) write_attribute(out, 9, each);
  }
  if (!span.failed) return;
  constexpr uint64_t kError = 2;  // Status { code = 3 }
  out.begin_sized(15, 2);
  out.number(3, kError);
}

// ScopeSpans { scope = 1, spans = 2 }, InstrumentationScope { name = 1 }
constexpr std::string_view kScope = "\x0a\x08\x0a\x06sluice";
constexpr uint32_t kSpanField = 2;

}  // namespace

bool SpanBatch::add(ChunkPool& pool, const Span& span) {
  static thread_local std::array<char, 16 * 1024> room;
  ProtoWriter body(std::span<char>(room).subspan(1 + kMaxLength));
  write_span(body, span);
  if (!body.ok()) return false;
  std::array<char, 1 + kMaxLength> front;
  ProtoWriter head(front);
  head.begin_sized(kSpanField, body.written().size());
  const std::string_view prefix = head.written();
  char* const start = room.data() + 1 + kMaxLength - prefix.size();
  std::copy(prefix.begin(), prefix.end(), start);
  if (!spans_.append_copy(pool, std::string_view(start, prefix.size() + body.written().size()))) return false;
  ++count_;
  return true;
}

void SpanBatch::clear() {
  spans_.clear();
  count_ = 0;
}

// ExportTraceServiceRequest { resource_spans = 1 }, ResourceSpans { resource = 1, scope_spans = 2 },
// Resource { attributes = 1 }
Buffer SpanBatch::take(ChunkPool& pool, std::string_view service) {
  count_ = 0;
  Buffer spans = std::exchange(spans_, Buffer());
  std::array<char, 2 * kMaxText> resource_room;
  ProtoWriter resource(resource_room);
  write_attribute(resource, 1, SpanAttribute::of("service.name", service));
  SLUICE_CHECK(resource.ok());
  const size_t resource_bytes = resource.written().size();
  const size_t scope_bytes = kScope.size() + spans.size();
  std::array<char, 3 * kMaxText> room;
  ProtoWriter head(room);
  head.begin_sized(1, 1 + varint_size(resource_bytes) + resource_bytes + 1 + varint_size(scope_bytes) + scope_bytes);
  head.text(1, resource.written());
  head.begin_sized(2, scope_bytes);
  SLUICE_CHECK(head.ok());
  Buffer body;
  if (!body.append_copy(pool, head.written()) || !body.append_copy(pool, kScope)) return {};
  body.append(std::move(spans));
  return body;
}

}  // namespace sluice
