#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/random.h"
#include "proxy/common/random_ids.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

struct BodyFile;
class Exchange;
class HttpUpstream;

/// What one worker has for HTTP, beside the connections of clients: the upstreams' connections that its requests share,
/// the links that have something to do at the end of the batch, and memory for exchanges.
class HttpWorker {
 public:
  struct Context {
    Worker& worker;
    std::vector<std::unique_ptr<Balancer>>& balancers;  ///< The worker's, by upstream.
    std::vector<SessionCache>& tls_sessions;            ///< Likewise.
    HandshakerServices& handshakers;
    WorkerCounters& counters;
    BodyFile* body_file = nullptr;  ///< Where a route has `buffer`.
  };
  explicit HttpWorker(const Context& context);
  ~HttpWorker();
  HttpWorker(const HttpWorker&) = delete;
  HttpWorker& operator=(const HttpWorker&) = delete;

  Worker& worker() { return context_.worker; }
  HttpUpstream& upstream(uint32_t index) { return *upstreams_[index]; }
  Random& random() { return random_; }
  HandshakerServices& handshakers() { return context_.handshakers; }
  RandomIds& ids() { return ids_; }
  CompressorPool& compressors() { return compressors_; }
  /// Precondition: a route has `buffer`.
  BodyFile& body_file() { return *context_.body_file; }

  /// Memory for one exchange; the last that were given back are used again.
  void* take_exchange_memory();
  void give_exchange_memory(void* memory);

  /// Names may stand for other endpoints than before.
  void follow_endpoints();
  /// The links' clients have gone: upstreams' connections close as they become free,
  void close();
  /// or now.
  void shut_down();
  bool idle() const;
  /// Copies what codecs have counted into the worker's counters.
  void update_counters();

 private:
  friend class HttpConnection;
  struct LinkList {
    void push(HttpConnection& link);
    HttpConnection* pop();
    bool remove(HttpConnection& link);
    HttpConnection* first = nullptr;
    HttpConnection* last = nullptr;
  };
  void wake(HttpConnection& link);
  /// In the next turn of the loop.
  void pump_later(HttpConnection& link);
  void resume_all();
  void forget(HttpConnection& link);
  void pump_all();

  Context context_;
  Random random_;
  RandomIds ids_;
  std::vector<std::unique_ptr<HttpUpstream>> upstreams_;
  CompressorPool compressors_;
  LinkList awake_;
  LinkList later_;
  Timer later_timer_;
  bool pumping_due_ = false;
  std::vector<void*> free_exchanges_;
};

}  // namespace sluice
