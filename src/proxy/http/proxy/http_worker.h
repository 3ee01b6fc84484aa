#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/random.h"
#include "proxy/common/random_ids.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/message/codec.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

struct BodyFile;
class Exchange;
class HttpUpstream;

/// The HTTP state of one worker, apart from client connections: the upstream connections that its requests share, the
/// list of connections with work at the end of the batch, and memory for exchanges.
class HttpWorker {
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

  Worker& worker() { return context_.worker; }
  HttpUpstream& upstream(uint32_t index) { return *upstreams_[index]; }
  Random& random() { return random_; }
  HandshakerServices& handshakers() { return context_.handshakers; }
  RandomIds& ids() { return ids_; }
  CompressorPool& compressors() { return compressors_; }
  /// Precondition: a route has `buffer`.
  BodyFile& body_file() { return *context_.body_file; }

  /// Returns memory for one exchange. The memory that was given back last is reused first.
  void* take_exchange_memory();
  void give_exchange_memory(void* memory);

  /// Call it when the names of upstreams may have resolved to other endpoints.
  void follow_endpoints();
  /// Ends upstream connections as they become free. Call it when no client connections are left.
  void close();
  /// Ends upstream connections now.
  void shut_down();
  bool idle() const;
  /// Copies the counts of the codecs into the worker's counters.
  void update_counters();

  /// For the connections of clients.
  HttpCodec::HeadBudget& head_budget() { return head_budget_; }

 private:
  friend class HttpConnection;
  struct ConnectionList {
    void push(HttpConnection& connection);
    HttpConnection* pop();
    bool remove(HttpConnection& connection);
    HttpConnection* first = nullptr;
    HttpConnection* last = nullptr;
  };
  void wake(HttpConnection& connection);
  /// Pumps the connection again once the head budget allows it, in this turn of the loop or a later one.
  void pump_later(HttpConnection& connection);
  void forget(HttpConnection& connection);
  /// Whether a connection with so many streams may end in this turn; takes its share of the turn.
  bool may_end(uint32_t streams);
  void pump_all();
  void schedule_pumping();

  Context context_;
  Random random_;
  RandomIds ids_;
  std::vector<std::unique_ptr<HttpUpstream>> upstreams_;
  CompressorPool compressors_;
  ConnectionList awake_;
  ConnectionList later_;
  Timer later_timer_;
  HttpCodec::HeadBudget head_budget_;
  bool pumping_due_ = false;
  std::vector<void*> free_exchanges_;
};

}  // namespace sluice
