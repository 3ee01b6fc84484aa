#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/tracing/otlp_log.h"
#include "proxy/tracing/otlp_span.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Records of one kind that wait to be exported together: spans or logs.
class OtlpBatch {
 public:
  /// Adds an encoded copy of the record. False: it is too large, or there is no memory for it.
  [[nodiscard]] bool add(ChunkPool& pool, const Span& span);
  [[nodiscard]] bool add(ChunkPool& pool, const OtlpLog& log);
  uint32_t count() const { return count_; }
  size_t bytes() const { return records_.size(); }

  /// The body of a request (ExportTraceServiceRequest, ExportLogsServiceRequest) with all records, of the service of
  /// that name; empty if there is no memory for it. The batch is empty then.
  Buffer take(ChunkPool& pool, std::string_view service);
  void clear();

 private:
  template <class Record>
  bool add_record(ChunkPool& pool, const Record& record);

  Buffer records_;  // Each is a field of a ScopeSpans or ScopeLogs message.
  uint32_t count_ = 0;
};

}  // namespace sluice
