#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/message/head.h"

namespace sluice {

class RequestContext;

/// How a request went, for its line in the access log.
struct RequestOutcome {
  uint16_t status = 0;  ///< Of the response to the client; 0: none was sent.
  uint64_t request_bytes = 0, response_bytes = 0;
  std::string_view upstream = {}, endpoint = {};  ///< Empty if there is none.
  uint32_t attempts = 0;
};

/// The access log of one request: its times, and what the log needs of heads that are gone when the line is written.
/// Does nothing unless the listener has a log.
class RequestLog {
 public:
  explicit RequestLog(const RequestContext& context);

  void note_response();
  /// Keeps the fields of the response that the log shows, in the request's head.
  void keep_fields(RequestContext& context, const Head& response);
  void write(const RequestContext& context, const RequestOutcome& outcome) const;

 private:
  uint64_t started_us_ = 0;
  uint32_t response_us_ = 0;  // From the start to the head of the upstream's response, at most; 0: none came.
  Text response_fields_;      // KeptValues.
};

}  // namespace sluice
