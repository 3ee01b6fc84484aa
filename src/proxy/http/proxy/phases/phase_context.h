#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "net/worker.h"
#include "proxy/common/peer_address.h"
#include "proxy/compression/content_coding.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/side_call.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/http_router.h"
#include "proxy/router/request_attributes.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class Bandwidth;
class BodyPacer;
class RoutePhases;

/// What a phase sees of an exchange, and the few actions that it can take.
class PhaseContext {
 public:
  ChunkPool& pool() const { return loop_.pool(); }
  TimerWheel& timers() const { return loop_.timers(); }
  uint64_t now_ms() const { return loop_.now_ms(); }
  uint64_t now_us() const { return loop_.now_us(); }

  /// The head. The phases change it into what the upstream gets.
  Head& request() { return request_; }
  /// The attributes of the request as the client sent it, before any rewrite. Valid until the request changes.
  virtual RequestAttributes attributes() const = 0;
  /// The route of the request and where it leads; null if no route matches.
  const HttpTarget* target() const { return target_; }
  const config::HttpRoute* route() const { return target_ ? target_->route.get() : nullptr; }
  bool tunnel() const { return tunnel_; }
  bool grpc() const { return grpc_; }
  /// Whether the whole request has arrived.
  bool request_ended() const { return request_ended_; }
  /// How the request ends, as far as it is known.
  HttpEnd end() const { return end_; }

  /// These keep what the client sent before it is rewritten. They return false if the head has no room.
  [[nodiscard]] bool keep_path() { return request_.fields.keep(pool(), request_.path(), original_path_); }
  [[nodiscard]] bool keep_authority() {
    return request_.fields.keep(pool(), request_.authority(), original_authority_);
  }

  /// Keeps the name of the authenticated client for the access log.
  virtual void keep_user(std::string_view name) = 0;

  /// Creates the state of a phase for this request.
  template <class State, class... Args>
  State& make_state(const Phase& phase, Args&&... args) {
    State* const made = make_in_chunk<State>(pool(), phase, std::forward<Args>(args)...).release();
    made->next = std::exchange(states_, ChunkPointer<PhaseState>(made));
    return *made;
  }
  /// The state that the phase has created; null if there is none.
  template <class State>
  State* state_of(const Phase& phase) const {
    PhaseState* at = states_.get();
    while (at && &at->phase != &phase) at = at->next.get();
    return static_cast<State*>(at);
  }

  /// Precondition: pace_request() or pace_response() was called.
  BodyPacers& pacers() const {
    for (PhaseState* at = states_.get();; at = at->next.get()) {
      if (BodyPacers* const found = at->pacers()) return *found;
    }
  }

  /// Continues after PhaseResult::wait() with the result that the phase has by now. No effect if the request has ended
  /// in the meantime.
  virtual void resume(const PhaseResult& result) = 0;
  /// Prepares for PhaseResult::wait(). Until resume(), no more of the request's body is read from the client, and the
  /// wait counts for the request's timeout, but not as idle time.
  virtual void hold() = 0;
  static constexpr uint16_t kNoShare = UINT16_MAX;
  /// The share of a route that splits its requests, as an index into `split`; kNoShare before it is chosen, and of
  /// other routes.
  uint16_t share() const { return share_; }
  /// Sends a copy of the request, body included, to another upstream.
  virtual void mirror(uint32_t upstream) = 0;
  /// Waits until the whole request, or this much of its body, has arrived.
  [[nodiscard]] virtual PhaseResult collect(uint64_t most_bytes) = 0;
  /// Asks an upstream, with a request that has no body and whose scheme the upstream determines. Until there is a
  /// response, no more of the request's body is read from the client. Returns null if the caller was notified already.
  virtual SideCall* authorize(uint32_t upstream, Head&& request, uint64_t timeout_ms, SideCall::Caller& caller) = 0;
  /// The same by a unary call of gRPC; see GrpcCall. `message` is copied.
  virtual SideCall* call_grpc(uint32_t upstream, std::string_view path, std::string_view message, uint64_t timeout_ms,
                              SideCall::Caller& caller) = 0;
  /// The address that the client has connected to.
  virtual PeerAddress local_address() const = 0;
  /// Paces the body of the request, as far as it has not arrived, or that of the response. The caller keeps the pacer
  /// in its state.
  virtual ChunkPointer<BodyPacer> pace_request(const Bandwidth& limits) = 0;
  virtual ChunkPointer<BodyPacer> pace_response(const Bandwidth& limits) = 0;
  /// Compresses the body of the response from now on.
  virtual void compress_response(ContentCoding coding) = 0;

 protected:
  PhaseContext(Worker& loop, const RoutePhases* phases) : loop_(loop), phases_(phases) {}
  PhaseContext(const PhaseContext&) = delete;
  PhaseContext& operator=(const PhaseContext&) = delete;
  ~PhaseContext() = default;

  Worker& loop_;
  const RoutePhases* phases_;                // Null if no phase is used.
  const HttpTarget* target_ = nullptr;       // Null until it is chosen.
  ChunkPointer<PhaseState> states_;          // The newest first.
  Head request_;                             // Cleared when nothing needs it.
  Text original_path_, original_authority_;  // As received, if they were rewritten.
  HttpEnd end_ = HttpEnd::kOk;
  bool request_ended_ : 1 = false;
  bool tunnel_ : 1 = false;  // The client requested a tunnel.
  bool grpc_ : 1 = false;
  uint16_t share_ = kNoShare;  // Of a route that splits its requests, once it is chosen.
};

}  // namespace sluice
