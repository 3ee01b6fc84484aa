#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/http_router.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

class RequestContext;
struct HttpListener;

/// How a request went, for its line in the access log.
struct RequestOutcome {
  uint16_t status = 0;  ///< Of the response to the client; 0: none was sent.
  uint64_t request_bytes = 0, response_bytes = 0;
  std::string_view upstream = {}, endpoint = {};  ///< Empty if there is none.
  uint32_t attempts = 0;
  std::optional<uint8_t> grpc_status = {};
  std::string_view span_id = {};  ///< Of the request, if it is recorded.
};

/// What the log shows of a request itself.
struct LoggedRequest {
  const RequestAttributes& attributes;
  std::string_view target = {};       ///< The path with the query.
  std::string_view kept = {};         ///< RequestLog::kept().
  const HttpTarget* route = nullptr;  ///< Null: none matched.
  HttpEnd end = HttpEnd::kOk;
  std::string_view detail = {};  ///< The rule that it breaks.
};

/// The access log of one request: its times, and what the log needs of heads that are gone when the line is written.
/// Does nothing unless the listener has a log.
class RequestLog {
 public:
  explicit RequestLog(const RequestContext& context);

  void note_response(const RequestContext& context);
  /// Whether note_pinned() has a use.
  bool begun() const { return started_us_ != 0; }
  /// So many bytes of bodies wait in the proxy now.
  void note_pinned(size_t bytes) {
    const size_t kib = std::min((bytes + 1023) / 1024, kMaxPinnedKib);
    if (kib > pinned_kib_) pinned_kib_ = kib & kMaxPinnedKib;
  }
  /// Keeps the name of the authenticated client, cut to kMaxUserBytes, in the request's head. Without room there, the
  /// line lacks it.
  static constexpr size_t kMaxUserBytes = 160;
  void keep_user(RequestContext& context, std::string_view name);
  /// Keeps the fields of the response that the log shows, in the request's head.
  void keep_fields(RequestContext& context, const Head& response);
  void write(const RequestContext& context, const RequestOutcome& outcome) const;
  /// The same where the request's head is gone.
  void write(HttpListener& listener, const LoggedRequest& request, const RequestOutcome& outcome) const;
  /// The name of the client and the fields of the response, as KeptValues.
  std::string_view kept(const Fields& request) const { return request.text(texts_); }

 private:
  static constexpr size_t kMaxPinnedKib = UINT16_MAX;

  // Requests are many, so both share one number. 48 bits of microseconds are 9 years.
  static constexpr uint64_t kTimeMask = (uint64_t{1} << 48) - 1;
  uint64_t started_us_ : 48 = 0;
  uint64_t pinned_kib_ : 16 = 0;  // The most that waited at once, rounded up.
  uint32_t response_us_ = 0;      // From the start to the head of the upstream's response, at most; 0: none came.
  Text texts_;                    // KeptValues: the name of the client, and the fields of the response.
};

}  // namespace sluice
