#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/random.h"
#include "proxy/common/random_ids.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/proxy/exchange_memory.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/paced_refusals.h"
#include "proxy/listener/worker_upstream.h"

namespace sluice {

struct BodyFile;
class HttpUpstream;

/// The HTTP state of one worker, apart from client connections: the upstream connections that its requests share, and
/// memory for exchanges. It outlives the configurations.
class HttpWorker : public HttpServices {
 public:
  struct Context {
    Worker& worker;
    HandshakerServices& handshakers;
    BodyFile* body_file = nullptr;                ///< Set if a route has `buffer`.
    const std::atomic<bool>* stopping = nullptr;  ///< See PhaseSetup.
    WorkerOverload& overload = WorkerOverload::none();
  };
  explicit HttpWorker(const Context& context);
  ~HttpWorker();
  HttpWorker(const HttpWorker&) = delete;
  HttpWorker& operator=(const HttpWorker&) = delete;

  /// The HTTP side of an upstream of this worker. It is made once, and lives at least as long as the result is kept.
  std::shared_ptr<HttpUpstream> http_upstream(const std::shared_ptr<WorkerUpstream>& upstream);
  /// Closes the upstreams that nobody keeps any more, and destroys those that have no connection left. Returns whether
  /// none of them is left. Call it with Worker::defer: requests that have ended are destroyed before.
  bool close_unused();
  Random& random() { return random_; }
  RandomIds& ids() { return ids_; }
  CompressorPool& compressors() { return compressors_; }
  PacedRefusals& refusals() { return refusals_; }
  const std::atomic<bool>* stopping() const { return context_.stopping; }
  /// Precondition: a route has `buffer`.
  BodyFile& body_file() { return *context_.body_file; }
  void set_body_file(BodyFile* file) { context_.body_file = file; }

  ExchangeMemory& exchange_memory() { return exchange_memory_; }
  /// Destroys an exchange, or a request of the proxy itself, at the end of the turn: those who called it may still be
  /// at work. It has `http_worker()`, and lies in exchange_memory(), to which its block returns.
  template <class T>
  void end_with_turn(T& ended) {
    context_.worker.defer(destroy<T>, &ended);
  }

  // A StreamTunnel exists. Until the last one is destroyed, the worker is not idle().
  void tunnel_began() { ++tunnels_; }
  void tunnel_ended() { --tunnels_; }

  /// Call it when the names of upstreams may have resolved to other endpoints.
  void follow_endpoints();
  /// Ends upstream connections as they become free. Call it when no client connections are left.
  void close();
  /// Ends upstream connections now.
  void shut_down();
  bool idle() const;

 private:
  template <class T>
  static void destroy(void* self) {
    auto* const ended = static_cast<T*>(self);
    ExchangeMemory& memory = ended->http_worker().exchange_memory();
    void* block = ended;
    if constexpr (std::is_polymorphic_v<T>) block = dynamic_cast<void*>(ended);
    ended->~T();
    memory.give(block);
  }

  Context context_;
  Random random_;
  RandomIds ids_;
  absl::flat_hash_map<const WorkerUpstream*, std::shared_ptr<HttpUpstream>> upstreams_;
  CompressorPool compressors_;
  PacedRefusals refusals_;
  ExchangeMemory exchange_memory_;
  size_t tunnels_ = 0;
};

}  // namespace sluice
