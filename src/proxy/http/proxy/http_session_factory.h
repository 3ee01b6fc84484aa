#pragma once

#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

/// Makes HttpSessions. `context` and `http` outlive it.
class HttpSessionFactory final : public SessionFactory {
 public:
  /// `access_log`: null if the listener has none.
  HttpSessionFactory(const ClientAcceptor::Context& context, HttpWorker& http, AccessLogWriter* access_log)
      : http_(http),
        listener_(http, context.listener.config, context.listener.http_router, context.listener.error_pages,
                  context.listener.auth, context.counters.http_listeners[context.listener_index], access_log,
                  [](HttpSession& session, HttpStream& stream) -> StreamReceiver& {
                    return Exchange::begin(session, stream);
                  }) {
    listener_.http2_shared.head_budget = &http.pump().head_budget();
    listener_.phases.make({.http = listener_.config,
                           .target = nullptr,
                           .access = listener_.access.get(),
                           .compression = listener_.compression ? &*listener_.compression : nullptr,
                           .counters = listener_.counters,
                           .compressors = http.compressors(),
                           .random = http.random()},
                          listener_.router.targets());
  }

  void start(ClientAcceptor& acceptor, int fd) override { HttpSession::start(acceptor, listener_, http_, fd); }
  void stop() override { listener_.bodies.drop(); }
  void update_counters() override { listener_.update_counters(); }

 private:
  HttpWorker& http_;
  HttpListener listener_;
};

}  // namespace sluice
