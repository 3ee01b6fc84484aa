// Compression of responses: chooses the coding with the client, and begins when a response is worth it.
#include <memory>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class CompressionPhase final : public Phase {
 public:
  explicit CompressionPhase(const PhaseSetup& setup)
      : policy_(*setup.compression), counters_(setup.counters), compressors_(setup.compressors) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    if (exchange.tunnel() || exchange.grpc()) return PhaseResult::go_on();
    State& state = exchange.make_state<State>(*this);
    const Head& request = exchange.request();
    if (request.method() != "HEAD") state.coding = policy_.choose(request.fields);
    return PhaseResult::go_on();
  }

  bool on_response(PhaseContext& exchange, Head& head, bool end) override {
    const State* const state = exchange.state_of<State>(*this);
    if (!state || !policy_.takes(head)) return true;
    if (!add_vary(exchange.pool(), head)) return false;
    if (state->coding == ContentCoding::kIdentity || end) return true;
    if (!compressors_.reserve(policy_.max_streams())) {
      counters_.compression_refused.add();
      return true;
    }
    exchange.compress_response(state->coding);
    counters_.compressed[static_cast<size_t>(state->coding)].add();
    return mark_encoded(exchange.pool(), state->coding, head);
  }

 private:
  struct State final : PhaseState {
    using PhaseState::PhaseState;
    ContentCoding coding = ContentCoding::kIdentity;
  };

  const CompressionPolicy& policy_;
  HttpCounters& counters_;
  CompressorPool& compressors_;
};

}  // namespace

std::unique_ptr<Phase> make_compression(const PhaseSetup& setup) {
  if (!setup.compression || !setup.target || !setup.target->forwards() || !setup.route()->compression) return nullptr;
  return std::make_unique<CompressionPhase>(setup);
}

}  // namespace sluice
