#include "proxy/http/proxy/hedged_request.h"

#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

HedgedRequest::HedgedRequest(Owner& owner, HttpUpstream& to) : owner_(owner) { to_ = &to; }

void HedgedRequest::end() {
  stop_waiting();
  leave_upstream();
  leave_endpoint();
}

RequestAttributes HedgedRequest::facts() const { return owner_.facts(); }
std::optional<uint32_t> HedgedRequest::beside() const { return owner_.endpoint(); }

void HedgedRequest::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  sent_ms_ = owner_.send_hedge(stream);
}

void HedgedRequest::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status >= 200) owner_.on_hedge_response(std::move(head), end);
}

void HedgedRequest::on_reset(HttpStream&, ResetReason reason) {
  // The endpoint may not have seen the request.
  const bool unseen = reason == ResetReason::kConnectionLost && connection_->used();
  const ResetRule rule = reset_rule(Side::kUpstream, reason);
  if (rule.fault == Fault::kEndpoint && !unseen) {
    report_error(to_->services().worker().now_ms(), http_end_name(rule.end));
  }
  owner_.end_hedge();
}

void HedgedRequest::on_no_upstream(HttpEnd) {
  waiting_ = false;
  owner_.end_hedge();
}

void HedgedRequest::on_connect_failed() { owner_.end_hedge(); }

}  // namespace sluice
