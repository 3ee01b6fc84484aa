// Spans in the protobuf encoding of OTLP, version 1 (opentelemetry/proto/trace/v1/trace.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// An attribute of a span: a text, or a number if `text` is null.
struct SpanAttribute {
  std::string_view key;
  std::string_view text;
  int64_t number = 0;
  bool is_number = false;

  static SpanAttribute of(std::string_view key, std::string_view text) { return {.key = key, .text = text}; }
  static SpanAttribute of_number(std::string_view key, int64_t number) {
    return {.key = key, .text = {}, .number = number, .is_number = true};
  }
};

/// A span. The texts belong to the caller.
struct Span {
  enum class Kind : uint8_t { kServer = 2, kClient = 3 };  ///< SpanKind

  std::string_view trace_id;       ///< 32 lower-case hexadecimal digits.
  std::string_view id, parent_id;  ///< 16 digits; the parent may be empty.
  Kind kind = Kind::kServer;
  std::string_view name;
  uint64_t start_ns = 0, end_ns = 0;          ///< Since 1970.
  std::span<const SpanAttribute> attributes;  ///< Empty texts are left out.
  bool failed = false;                        ///< The status ERROR; else it is unset.
};

/// Spans that wait to be exported together.
class SpanBatch {
 public:
  /// Texts of a span are cut to this length, in bytes.
  static constexpr size_t kMaxText = 1024;

  /// Adds an encoded copy of the span. False: it is too large, or there is no memory for it.
  [[nodiscard]] bool add(ChunkPool& pool, const Span& span);
  uint32_t count() const { return count_; }
  size_t bytes() const { return spans_.size(); }

  /// The body of a request (ExportTraceServiceRequest) with all spans, of the service of that name; empty if there is
  /// no memory for it. The batch is empty then.
  Buffer take(ChunkPool& pool, std::string_view service);
  void clear();

 private:
  Buffer spans_;  // Each is a field of a ScopeSpans message.
  uint32_t count_ = 0;
};

}  // namespace sluice
