#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_rules.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/http/proxy/request_deadlines.h"
#include "proxy/router/request_attributes.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class BodyBuffer;
class HttpSession;
class HttpWorker;
struct HttpListener;

/// The client's side of an exchange: its stream, the request as it was received, and what is found out about it before
/// it is sent: who the client is, the canonical path, and the route.
class RequestContext : public PhaseContext {
 public:
  RequestAttributes attributes() const final;
  /// The same without `host`, `path` and `query`, which take longer.
  RequestAttributes attributes_but_host_and_path() const;
  std::string_view original_path() const;
  std::string_view original_authority() const;

  Worker& loop() const { return loop_; }
  HttpWorker& http_worker() const;
  HttpListener& listener() const { return listener_; }
  const config::Http& config() const;
  /// The client's stream; null once it is released.
  HttpStream* client() const { return client_; }
  /// Valid as long as the client's stream.
  HttpSession* session() const { return session_; }

  /// The rule that the request breaks, for the access log.
  HttpRuleIndex broken() const { return broken_; }
  /// The client's span, in hexadecimal digits, if the request is recorded and has one.
  std::string_view parent_span() const { return request_.fields.text(identity_.parent_span); }

  /// How many bytes a stream may queue before the sender pauses.
  size_t high_mark() const;
  /// Call it before data is passed to the client's stream: if nothing waits there, the client has made progress.
  void note_response_queued() {
    if (client_->queued() == 0) deadlines_.response_ms = now_ms();
  }
  /// A body that is paced goes on: waiting for its turn was no idle time.
  void note_turn() { deadlines_.active_ms = now_ms(); }
  /// The client is read again.
  void note_request_resumed() { deadlines_.request_ms = now_ms(); }
  /// Makes a buffer for a body, which calls `moved(context)` when a write to its file has ended.
  ChunkPointer<BodyBuffer> make_body_buffer(uint64_t most_bytes, void (*moved)(void* context), void* context);

  // Called by the bodies, when they can go on without an event of a stream.
  virtual void on_request_moved() = 0;
  /// The turn of a piece of a request's body has come, or of its trailers.
  virtual void on_request_turn(Buffer&& body, bool end) = 0;
  virtual void on_request_turn(Fields&& trailers) = 0;
  virtual void on_response_moved() = 0;

 protected:
  /// `look` is called with `this` when a deadline may have expired.
  RequestContext(HttpSession& session, HttpStream& client, void (*look)(void* context));
  ~RequestContext() = default;

  const ClientIp& client_ip() const;
  /// The scheme that a trusted proxy reports for the client; otherwise the scheme of the connection to this proxy.
  std::string_view scheme() const;
  bool connects() const { return request_.method() == "CONNECT" && request_.protocol().empty(); }

  [[nodiscard]] bool find_identity();
  /// Whether an extended CONNECT (RFC 8441) is accepted. An HTTP/1.1 upgrade is represented as one here.
  bool takes_protocol() const { return config().websocket && request_.protocol() == "websocket"; }
  /// Gives the path its canonical form, which routes, logs and upstreams see. Returns false if it has none.
  [[nodiscard]] bool make_canonical();
  /// Whether the host belongs to another listener of the address, by whose rules this connection was not admitted.
  bool is_misdirected() const;
  /// Finds the route with its phases.
  void find_route();
  [[nodiscard]] bool add_origin_fields();

  bool hostless_ = false;     // The request has no host, as HTTP/1.0 allows.
  HttpRuleIndex broken_ = 0;  // The rule that the request breaks.
  RequestIdentity identity_;  // If the listener identifies requests.
  HttpListener& listener_;
  HttpSession* session_;  // Null with client_.
  HttpStream* client_;    // Null once released.
  RequestDeadlines deadlines_;
};

}  // namespace sluice
