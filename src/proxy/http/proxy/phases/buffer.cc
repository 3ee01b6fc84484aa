// Buffering of requests: a request is sent when all of it is here.
#include <cstdint>
#include <memory>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class BufferPhase final : public Phase {
 public:
  explicit BufferPhase(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // A gRPC call is never buffered: it may be a conversation, which would not end.
  PhaseResult on_request(PhaseContext& exchange) override {
    if (exchange.request_ended() || exchange.tunnel() || exchange.grpc()) return PhaseResult::go_on();
    return exchange.collect(most_bytes_);
  }

 private:
  const uint64_t most_bytes_;
};

}  // namespace

std::unique_ptr<Phase> make_buffer(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  if (!route || !route->buffer || route->buffer->requests.bytes == 0) return nullptr;
  return std::make_unique<BufferPhase>(route->buffer->requests.bytes);
}

}  // namespace sluice
