// Features of a route as phases: parts of an exchange that have a place in the order of phases.cc, a file of their own,
// and their own state.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "proxy/auth/listener_access.h"
#include "proxy/common/random.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "proxy/router/http_router.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class Phase;
class PhaseContext;
struct BodyPacers;

/// A response of another server than the upstream.
struct OtherResponse {
  Head head;
  Buffer body;
};

/// What a phase decides about a request.
struct PhaseResult {
  enum class Kind : uint8_t { kContinue, kWait, kFail, kRespond, kRespondWith };

  /// The request goes on to the next phase.
  static PhaseResult go_on() { return {}; }
  /// The request pauses until PhaseContext::resume is called.
  static PhaseResult wait() { return {.kind = Kind::kWait}; }
  /// The request ends with an error response.
  static PhaseResult fail(HttpEnd why) { return {.kind = Kind::kFail, .end = why}; }
  /// The same with another status than is usual for that end.
  static PhaseResult fail(HttpEnd why, uint16_t status) { return {.kind = Kind::kFail, .end = why, .status = status}; }
  /// The request ends with this response. Its texts must stay valid while it is sent to the client's stream.
  static PhaseResult respond(uint16_t status, std::string_view content_type = {}, std::string_view body = {},
                             std::string_view location = {}) {
    return {.kind = Kind::kRespond, .status = status, .content_type = content_type, .body = body, .location = location};
  }

  /// The request ends with this response, which is moved from.
  static PhaseResult respond_with(HttpEnd why, OtherResponse& response) {
    return {.kind = Kind::kRespondWith, .end = why, .other = &response};
  }

  Kind kind = Kind::kContinue;
  HttpEnd end = HttpEnd::kOk;
  uint16_t status = 0;
  std::string_view content_type = {}, body = {}, location = {};
  OtherResponse* other = nullptr;
};

/// The state of a phase for one request: see PhaseContext::make_state.
struct PhaseState {
  explicit PhaseState(const Phase& owner) : phase(owner) {}
  virtual ~PhaseState() = default;
  /// The request has ended while it waited for the phase.
  virtual void stop() {}
  /// The pacers of the bodies, if this state has them.
  virtual BodyPacers* pacers() { return nullptr; }
  PhaseState(const PhaseState&) = delete;
  PhaseState& operator=(const PhaseState&) = delete;

  const Phase& phase;
  ChunkPointer<PhaseState> next;
};

/// A feature of one route, on one worker. A route that does not use the feature has no such phase.
class Phase {
 public:
  Phase() = default;
  virtual ~Phase() = default;
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  /// Handles a request, at the step that phases.cc lists for it. Must not block.
  virtual PhaseResult on_request(PhaseContext&) { return PhaseResult::go_on(); }
  /// Changes the head of a response, of the upstream or (Head::own) of this proxy, at the step that phases.cc lists for
  /// it. `end`: the response has no body. Returns false if the head has no room.
  [[nodiscard]] virtual bool on_response(PhaseContext&, Head&, bool /*end*/) { return true; }
};

/// What a phase is made from. All of it outlives the phase.
struct PhaseSetup {
  config::Snapshot<config::Http> http;
  const HttpTarget* target;              ///< Null: for requests that match no route.
  ListenerAccess* access;                ///< Null if every client is admitted.
  const CompressionPolicy* compression;  ///< Null if the listener compresses nothing.
  HttpCounters& counters;
  CompressorPool& compressors;  ///< Of the worker.
  Random& random;               ///< Of the worker.
  /// Whether the process is about to end; set by another thread. Null: it is not.
  const std::atomic<bool>* stopping = nullptr;
  std::string_view listener = {};                   ///< Its name.
  const WorkerRateLimits* rate_limits = nullptr;    ///< Those of the configuration; null: none.
  uint32_t rate_limit_service = HttpTarget::kNone;  ///< Index of the upstream of `global_rate_limits`.

  const config::HttpRoute* route() const { return target ? target->route.get() : nullptr; }
};

/// Makes a phase for one route; null if the route does not use it.
using MakePhase = std::unique_ptr<Phase>(const PhaseSetup& setup);

}  // namespace sluice
