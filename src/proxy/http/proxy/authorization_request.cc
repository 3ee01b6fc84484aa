#include "proxy/http/proxy/authorization_request.h"

#include <utility>

namespace sluice {

void AuthorizationRequest::send(HttpStream& stream) { stream.send_head(request_, /*end=*/true); }

void AuthorizationRequest::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200) return;
  note_response(head.status);
  request_.clear();
  response_ = std::move(head);
  if (end) return finish(Outcome::kResponse);
  // The body of a 2xx response is read only so that the connection can be reused.
  if (response_.status / 100 == 2) notify(Outcome::kResponse);
}

void AuthorizationRequest::on_body(HttpStream&, Buffer&& body, bool end) {
  if (take_body(std::move(body)) && end) finish(Outcome::kResponse);
}

}  // namespace sluice
