#include "proxy/http/proxy/hedged_request.h"

#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

HedgedRequest::HedgedRequest(Exchange& exchange, HttpUpstream& to) : exchange_(exchange) { to_ = &to; }

void HedgedRequest::end() {
  stop_waiting();
  leave_upstream();
  leave_endpoint();
}

RequestAttributes HedgedRequest::facts() const { return exchange_.facts(); }
std::optional<uint32_t> HedgedRequest::beside() const { return exchange_.endpoint(); }

void HedgedRequest::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  sent_ms_ = exchange_.send_hedge(stream);
}

void HedgedRequest::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status >= 200) exchange_.on_hedge_response(std::move(head), end);
}

void HedgedRequest::on_reset(HttpStream&, ResetReason reason) {
  // The endpoint may not have seen the request.
  const bool unseen = reason == ResetReason::kConnectionLost && connection_->used();
  const Fault fault = reset_rule(Side::kUpstream, reason).fault;
  if (fault == Fault::kEndpoint && !unseen) to_->state().report_error(endpoint_, to_->worker().worker().now_ms());
  exchange_.end_hedge();
}

void HedgedRequest::on_no_upstream(HttpEnd) {
  waiting_ = false;
  exchange_.end_hedge();
}

void HedgedRequest::on_connect_failed() { exchange_.end_hedge(); }

}  // namespace sluice
