#pragma once

#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

class HttpSession;
class HttpWorker;
struct HttpListener;

/// A request as it was received, and what is found out about it before it is sent: who the client is, the canonical
/// path, and the route.
class RequestContext : public PhaseContext {
 public:
  RequestAttributes attributes() const final;

 protected:
  explicit RequestContext(HttpSession& session);
  ~RequestContext() = default;

  const config::Http& config() const;
  const ClientIp& client_ip() const;
  /// The scheme that a trusted proxy reports for the client; otherwise the scheme of the connection to this proxy.
  std::string_view scheme() const;
  std::string_view original_path() const;
  std::string_view original_authority() const;
  bool connects() const { return request_.method() == "CONNECT" && request_.protocol().empty(); }

  [[nodiscard]] bool find_identity();
  /// Whether an extended CONNECT (RFC 8441) is accepted. An HTTP/1.1 upgrade is represented as one here.
  bool takes_protocol() const { return config().websocket && request_.protocol() == "websocket"; }
  /// Gives the path its canonical form, which routes, logs and upstreams see. Returns false if it has none.
  [[nodiscard]] bool make_canonical();
  /// Finds the route with its phases.
  void find_route();
  [[nodiscard]] bool add_origin_fields();

  HttpWorker& worker_;
  HttpListener& listener_;
  HttpSession* session_;      // Valid as long as the client's stream.
  RequestIdentity identity_;  // If the listener identifies requests.
  bool hostless_ = false;     // The request has no host, as HTTP/1.0 allows.
};

}  // namespace sluice
