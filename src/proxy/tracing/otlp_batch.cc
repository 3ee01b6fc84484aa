#include "proxy/tracing/otlp_batch.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// Room for the length of a record in front of it.
constexpr size_t kMaxLength = 5;
// The most that a record may have.
constexpr size_t kMaxRecord = size_t{24} * 1024;

// ScopeSpans { scope = 1, spans = 2 }, ScopeLogs { scope = 1, log_records = 2 }, InstrumentationScope { name = 1 }
constexpr std::string_view kScope = "\x0a\x08\x0a\x06sluice";
constexpr uint32_t kRecordField = 2;

}  // namespace

template <class Record>
bool OtlpBatch::add_record(ChunkPool& pool, const Record& record) {
  static thread_local std::array<char, 1 + kMaxLength + kMaxRecord> room;
  ProtoWriter body(std::span<char>(room).subspan(1 + kMaxLength));
  write_record(body, record);
  if (!body.ok()) return false;
  std::array<char, 1 + kMaxLength> front;
  ProtoWriter head(front);
  head.begin_sized(kRecordField, body.written().size());
  const std::string_view prefix = head.written();
  char* const start = room.data() + 1 + kMaxLength - prefix.size();
  std::copy(prefix.begin(), prefix.end(), start);
  if (!records_.append_copy(pool, std::string_view(start, prefix.size() + body.written().size()))) return false;
  ++count_;
  return true;
}

bool OtlpBatch::add(ChunkPool& pool, const Span& span) { return add_record(pool, span); }
bool OtlpBatch::add(ChunkPool& pool, const OtlpLog& log) { return add_record(pool, log); }

void OtlpBatch::clear() {
  records_.clear();
  count_ = 0;
}

// ExportTraceServiceRequest { resource_spans = 1 }, ResourceSpans { resource = 1, scope_spans = 2 },
// ExportLogsServiceRequest { resource_logs = 1 }, ResourceLogs { resource = 1, scope_logs = 2 },
// Resource { attributes = 1 }
Buffer OtlpBatch::take(ChunkPool& pool, std::string_view service) {
  count_ = 0;
  Buffer records = std::exchange(records_, Buffer());
  std::array<char, 2 * kMaxOtlpText> resource_room;
  ProtoWriter resource(resource_room);
  write_attribute(resource, 1, OtlpAttribute::of("service.name", service));
  SLUICE_CHECK(resource.ok());
  const size_t resource_bytes = resource.written().size();
  const size_t scope_bytes = kScope.size() + records.size();
  std::array<char, 3 * kMaxOtlpText> room;
  ProtoWriter head(room);
  head.begin_sized(1, 1 + varint_size(resource_bytes) + resource_bytes + 1 + varint_size(scope_bytes) + scope_bytes);
  head.text(1, resource.written());
  head.begin_sized(2, scope_bytes);
  SLUICE_CHECK(head.ok());
  Buffer body;
  if (!body.append_copy(pool, head.written()) || !body.append_copy(pool, kScope)) return {};
  body.append(std::move(records));
  return body;
}

}  // namespace sluice
