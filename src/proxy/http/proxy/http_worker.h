#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/random.h"
#include "proxy/common/random_ids.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/proxy/exchange_memory.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

struct BodyFile;
class HttpUpstream;

/// The HTTP state of one worker, apart from client connections: the upstream connections that its requests share, and
/// memory for exchanges.
class HttpWorker : public HttpServices {
 public:
  struct Context {
    Worker& worker;
    std::vector<std::unique_ptr<Balancer>>& balancers;  ///< The worker's balancers, by upstream.
    std::vector<SessionCache>& tls_sessions;            ///< The worker's TLS sessions, by upstream.
    HandshakerServices& handshakers;
    WorkerCounters& counters;
    BodyFile* body_file = nullptr;  ///< Set if a route has `buffer`.
  };
  explicit HttpWorker(const Context& context);
  ~HttpWorker();
  HttpWorker(const HttpWorker&) = delete;
  HttpWorker& operator=(const HttpWorker&) = delete;

  HttpUpstream& upstream(uint32_t index) { return *upstreams_[index]; }
  Random& random() { return random_; }
  RandomIds& ids() { return ids_; }
  CompressorPool& compressors() { return compressors_; }
  /// Precondition: a route has `buffer`.
  BodyFile& body_file() { return *context_.body_file; }

  ExchangeMemory& exchange_memory() { return exchange_memory_; }

  /// Call it when the names of upstreams may have resolved to other endpoints.
  void follow_endpoints();
  /// Ends upstream connections as they become free. Call it when no client connections are left.
  void close();
  /// Ends upstream connections now.
  void shut_down();
  bool idle() const;
  /// Copies the counts of the codecs into the worker's counters.
  void update_counters();

 private:
  Context context_;
  Random random_;
  RandomIds ids_;
  std::vector<std::unique_ptr<HttpUpstream>> upstreams_;
  CompressorPool compressors_;
  ExchangeMemory exchange_memory_;
};

}  // namespace sluice
