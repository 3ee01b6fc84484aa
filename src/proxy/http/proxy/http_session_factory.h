#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/moving_group.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

/// Makes HttpSessions. `context` and `http` outlive it.
class HttpSessionFactory final : public SessionFactory {
 public:
  /// `access_log`: not set if the listener has none.
  HttpSessionFactory(const ClientAcceptor::Context& context, HttpWorker& http, AccessLogTarget access_log)
      : http_(http),
        counters_(context.http_counters),
        listener_(http, context.listener->config, context.listener->http_router, context.listener->error_pages,
                  context.listener->auth, context.upstreams, *counters_, context.latencies, std::move(access_log),
                  [](HttpSession& session, HttpStream& stream) -> StreamReceiver& {
                    return Exchange::begin(session, stream);
                  }) {
    listener_.phases.make({.http = listener_.config,
                           .target = nullptr,
                           .access = listener_.access.get(),
                           .compression = listener_.compression ? &*listener_.compression : nullptr,
                           .counters = listener_.counters,
                           .compressors = http.compressors(),
                           .random = http.random(),
                           .stopping = http.stopping(),
                           .listener = listener_.listener->name,
                           .rate_limits = &context.rate_limits,
                           .rate_limit_service = listener_.rate_limit_service()},
                          listener_.router.targets());
    if (needs_sni(*listener_.config, context.rate_limits)) listener_.keeps_agreement = true;
    if (context.listener->config->tls) listener_.shared = context.shared;
  }

  void start(ClientAcceptor& acceptor, int fd, int family) override {
    HttpSession::start(acceptor, listener_, http_, fd, family);
  }
  bool resume(ClientAcceptor& acceptor, MovingSession& session, FindAcceptor find, bool stays) override {
    if (session.kind == MovingSession::Kind::kTunnel) {
      return L4Session::resume(acceptor, /*log=*/nullptr, session, stays);
    }
    const auto find_listener = [find](std::string_view name) -> std::pair<ClientAcceptor*, HttpListener*> {
      ClientAcceptor* const found = find(name);
      if (!found || !found->listener().config->http) return {};
      return {found, &static_cast<HttpSessionFactory&>(found->factory()).listener_};
    };
    return MovingGroup::resume(session, find_listener, stays);
  }
  void adopt(ClientAcceptor& acceptor, Session& session) override {
    // Others are tunnels that have settled, or came from another process.
    if (auto* const http = dynamic_cast<HttpSession*>(&session)) http->move_to(acceptor, listener_);
  }
  void stop() override {
    listener_.bodies.drop();
    if (listener_.tracing) listener_.tracing->stop();
    if (listener_.log) listener_.log->stop();
  }
  bool idle() const override {
    return listener_.exchanges.empty() && listener_.settled_tunnels == 0 &&
           (!listener_.tracing || listener_.tracing->idle()) && (!listener_.log || listener_.log->idle());
  }
  size_t requests() const override { return listener_.exchanges.size(); }
  Session* session_of(size_t request) override { return listener_.exchanges[request]->session(); }

 private:
  HttpWorker& http_;
  const std::shared_ptr<HttpCounters> counters_;
  HttpListener listener_;
};

}  // namespace sluice
