#include "proxy/tracing/otlp_span.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// Room for the length of a span in front of it.
constexpr size_t kMaxLength = 5;

/// Writes protobuf fields into a fixed room. What does not fit makes it fail.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::span<char> room) : room_(room) {}

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(static_cast<char>(value | 0x80));
    put(static_cast<char>(value));
  }
  void tag(uint32_t field, Wire wire) { varint(uint64_t{field} << 3 | static_cast<uint8_t>(wire)); }
  void number(uint32_t field, uint64_t value) {
    tag(field, Wire::kVarint);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    tag(field, Wire::kFixed64);
    for (int i = 0; i < 8; ++i) put(static_cast<char>(value >> (8 * i)));
  }
  void text(uint32_t field, std::string_view value) {
    begin_message(field, value.size());
    if (value.size() > room_.size() - size_) {
      ok_ = false;
      return;
    }
    std::copy(value.begin(), value.end(), room_.data() + size_);
    size_ += value.size();
  }
  // An id given in hexadecimal digits.
  void id(uint32_t field, std::string_view digits) {
    begin_message(field, digits.size() / 2);
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
      put(static_cast<char>(nibble(digits[i]) << 4 | nibble(digits[i + 1])));
  }
  void begin_message(uint32_t field, size_t bytes) {
    tag(field, Wire::kBytes);
    varint(bytes);
  }

  bool ok() const { return ok_; }
  std::string_view written() const { return {room_.data(), size_}; }

 private:
  static unsigned nibble(char digit) { return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }
  void put(char byte) {
    if (size_ == room_.size()) {
      ok_ = false;
      return;
    }
    room_[size_++] = byte;
  }

  std::span<char> room_;
  size_t size_ = 0;
  bool ok_ = true;
};

// ---- common.proto: KeyValue { key = 1, value = 2 }, AnyValue { string_value = 1, int_value = 3 }

void write_attribute(ProtoWriter& out, uint32_t field, const SpanAttribute& attribute) {
  const std::string_view text = attribute.text.substr(0, SpanBatch::kMaxText);
  const auto number = static_cast<uint64_t>(attribute.number);
  const size_t value_bytes = attribute.is_number ? 1 + varint_size(number) : 1 + varint_size(text.size()) + text.size();
  out.begin_message(
      field, 1 + varint_size(attribute.key.size()) + attribute.key.size() + 1 + varint_size(value_bytes) + value_bytes);
  out.text(1, attribute.key);
  out.begin_message(2, value_bytes);
  attribute.is_number ? out.number(3, number) : out.text(1, text);
}

// ---- trace.proto: Span

void write_span(ProtoWriter& out, const Span& span) {
  out.id(1, span.trace_id);
  out.id(2, span.id);
  if (!span.parent_id.empty()) out.id(4, span.parent_id);
  out.text(5, span.name.substr(0, SpanBatch::kMaxText));
  out.number(6, static_cast<uint8_t>(span.kind));
  out.fixed64(7, span.start_ns);
  out.fixed64(8, span.end_ns);
  for (const SpanAttribute& each : span.attributes) {
    if (each.is_number || !each.text.empty()) write_attribute(out, 9, each);
  }
  if (!span.failed) return;
  constexpr uint64_t kError = 2;  // Status { code = 3 }
  out.begin_message(15, 2);
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
  head.begin_message(kSpanField, body.written().size());
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
  head.begin_message(1, 1 + varint_size(resource_bytes) + resource_bytes + 1 + varint_size(scope_bytes) + scope_bytes);
  head.text(1, resource.written());
  head.begin_message(2, scope_bytes);
  SLUICE_CHECK(head.ok());
  Buffer body;
  if (!body.append_copy(pool, head.written()) || !body.append_copy(pool, kScope)) return {};
  body.append(std::move(spans));
  return body;
}

}  // namespace sluice
