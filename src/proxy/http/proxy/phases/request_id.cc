// The request id, returned to the client.
#include <memory>
#include <string_view>
#include <utility>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class RequestIdPhase final : public Phase {
 public:
  explicit RequestIdPhase(config::Snapshot<config::RequestId> rule) : rule_(std::move(rule)) {}

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    head.fields.remove(rule_->header.text());
    const std::string_view id = exchange.attributes().request_id;
    return id.empty() || head.fields.add(exchange.pool(), rule_->header.text(), id);
  }

 private:
  const config::Snapshot<config::RequestId> rule_;
};

}  // namespace

std::unique_ptr<Phase> make_request_id(const PhaseSetup& setup) {
  const auto& rule = setup.http->request_id;
  return rule && rule->respond ? std::make_unique<RequestIdPhase>(setup.http.part(*rule)) : nullptr;
}

}  // namespace sluice
