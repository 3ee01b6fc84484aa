#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/proxy/side_request.h"

namespace sluice {

/// A unary call of gRPC: one message each way. Its response for the caller is the message, without a head, and only if
/// its grpc-status is OK.
class GrpcCall final : public SideRequest {
 public:
  /// Starts it; returns null if it has notified the caller already. `path` is `/package.Service/Method`. It carries
  /// the timeout.
  static SideCall* begin(HttpWorker& worker, HttpUpstream& to, std::string_view path, std::string_view message,
                         uint64_t timeout_ms, Caller& caller) {
    return begin_of<GrpcCall>(worker, timeout_ms, to, path, message, timeout_ms, caller);
  }

 private:
  friend SideRequest;
  GrpcCall(HttpWorker& worker, HttpUpstream& to, std::string_view path, std::string_view message, uint64_t timeout_ms,
           Caller& caller);

  // SideRequest
  std::string_view find_flaw() const override;
  void send(HttpStream& stream) override;
  // StreamReceiver
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&& trailers) override { conclude(trailers); }

  [[nodiscard]] bool write_head(std::string_view path, uint64_t timeout_ms);
  void conclude(const Fields& last);

  Buffer message_;  // With its prefix. Kept, as the call may have to be repeated.
};

}  // namespace sluice
