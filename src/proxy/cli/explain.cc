#include "proxy/cli/explain.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proxy/auth/reserved_headers.h"
#include "proxy/cli/explain_words.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/config/load/scalar.h"
#include "proxy/config/model/address_groups.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/client_address.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/router/canonical_path.h"
#include "proxy/router/field_changes.h"
#include "proxy/router/http_router.h"
#include "proxy/router/listener_names.h"
#include "proxy/router/rewrite.h"
#include "proxy/tls/certificate_choice.h"
#include "proxy/tls/certificate_files.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

using config::in_quotes;

struct Url {
  bool secure = false;
  std::string authority;
  uint32_t port = 0;
  std::string target;
};

absl::StatusOr<Url> parse_url(std::string_view text) {
  const auto refused = [all = text](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a URL such as https://a.example.com/path, got ", in_quotes(all), why));
  };
  Url url;
  url.secure = absl::ConsumePrefix(&text, "https://");
  if (!url.secure && !absl::ConsumePrefix(&text, "http://")) return refused("");
  text = text.substr(0, text.find('#'));  // clients do not send the fragment
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  url.authority = std::string(text.substr(0, end));
  url.target = std::string(text.substr(end));
  if (!url.target.starts_with('/')) url.target.insert(url.target.begin(), '/');
  if (url.authority.empty() || url.authority.find('@') != std::string::npos) return refused("");
  url.port = url.secure ? 443 : 80;
  const size_t colon = url.authority.rfind(':');
  if (colon != std::string::npos && !url.authority.ends_with(']') &&
      (!absl::SimpleAtoi(url.authority.substr(colon + 1), &url.port) || url.port > 65535)) {
    return refused(": the port must be a number up to 65535");
  }
  return url;
}

bool is_secure(const config::Listener& listener) { return listener.tls || listener.alts; }

std::string words_for(const config::Listener& listener) {
  const char* const kind = listener.tls ? "TLS" : listener.alts ? "ALTS" : "plain";
  const auto append = [](std::string* out, const config::Address& address) { out->append(address.text()); };
  return absl::StrCat(listener.name, " (", absl::StrJoin(listener.addresses, ", ", append), ", ", kind, ")");
}

bool has_port(const config::Listener& listener, uint32_t port) {
  return std::any_of(listener.addresses.begin(), listener.addresses.end(), [&](const config::Address& address) {
    return address.kind() != config::Address::Kind::kUnix && address.port() == port;
  });
}

// Of the listeners at the same addresses as `listener`, the one that a client with this server name gets; null if none.
const config::Listener* listener_of_name(const config::Config& config, const config::Listener& listener,
                                         std::string_view name) {
  const config::AddressGroups groups(config.listeners);
  const auto index = static_cast<size_t>(&listener - config.listeners.data());
  std::vector<const config::Listener*> sharing;
  for (const size_t each : groups.groups()[groups.group_of(index)]) sharing.push_back(&config.listeners[each]);
  const size_t found = ListenerNames(sharing).find(name);
  return found == ListenerNames::kNone ? nullptr : sharing[found];
}

absl::StatusOr<const config::Listener*> find_listener(const config::Config& config, const ExplainedRequest& request,
                                                      const Url& url) {
  std::vector<std::string> known;
  const config::Listener *found = nullptr, *only = nullptr;
  size_t fitting = 0;
  for (const config::Listener& listener : config.listeners) {
    if (!listener.http) continue;
    known.push_back(words_for(listener));
    const bool named = !request.listener.empty() && listener.name == request.listener;
    const bool by_port = request.listener.empty() && is_secure(listener) == url.secure;
    if (by_port) {
      ++fitting;
      only = &listener;
    }
    if (!found && (named || (by_port && has_port(listener, url.port)))) found = &listener;
  }
  if (found && request.listener.empty() && url.secure) {
    std::array<char, Fields::kMaxBytes> scratch;
    const std::string_view name = canonical_host(url.authority, scratch);
    found = listener_of_name(config, *found, name);
    if (!found) return absl::InvalidArgumentError(absl::StrCat("no listener has the server name ", in_quotes(name)));
    if (!found->http) {
      return absl::InvalidArgumentError(
          absl::StrCat("listener ", in_quotes(found->name), ", which has this server name, has no `http`"));
    }
  }
  if (found) return found;
  if (fitting == 1) return only;
  return absl::InvalidArgumentError(absl::StrCat(
      request.listener.empty()
          ? absl::StrCat("no listener has ", url.secure ? "TLS" : "no TLS", " and port ", url.port, "; name one")
          : absl::StrCat("there is no listener ", in_quotes(request.listener), " with `http`"),
      known.empty() ? "; none has `http`" : absl::StrCat(" of ", absl::StrJoin(known, ", "))));
}

std::string certificate_for(const config::ListenerTls& tls, std::string_view host) {
  std::vector<Certificate> certificates;
  for (const config::TlsCertificate& files : tls.certificates) {
    absl::StatusOr<Certificate> read = read_certificate(files);
    if (!read.ok()) return absl::StrCat("unknown: ", read.status().message());
    certificates.push_back(*std::move(read));
  }
  std::vector<std::string> chosen;
  CertificateChoice(certificates).visit(host, [&](size_t i) {
    chosen.push_back(absl::StrCat(tls.certificates[i].chain, " (", absl::StrJoin(certificates[i].names, ", "), ")"));
  });
  return absl::StrJoin(chosen, ", ");
}

class Explainer {
 public:
  Explainer(const config::Config& config, const config::Listener& listener, const ExplainedRequest& request,
            const Url& url)
      : config_(config), listener_(listener), http_(*listener.http), request_(request), url_(url) {}

  absl::StatusOr<std::string> explain() {
    if (const absl::Status status = make_request(); !status.ok()) return status;
    lines_.add("request", absl::StrCat(request_.method, " ", request_.url));
    lines_.add("listener", words_for(listener_));
    add_identity();
    if (listener_.tls) lines_.add("certificate", certificate_for(*listener_.tls, host()));
    if (is_allowed() && find_path()) find_route();
    return lines_.take();
  }

 private:
  absl::Status make_request() {
    if (!http1::is_token(request_.method)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a method such as GET, got ", in_quotes(request_.method)));
    }
    const absl::StatusOr<config::Address> from = config::Address::parse(
        request_.from.find(':') == std::string::npos ? request_.from + ":1" : "[" + request_.from + "]:1");
    if (!from.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("expected an IP address, got ", in_quotes(request_.from)));
    }
    peer_ = ClientIp(PeerAddress::copy_of(from->data(), from->length()));
    agreed_.version = "TLSv1.3";
    agreed_.server_name = std::string(host());
    agreed_.peer_names = request_.peer;
    bool room = head_.set(pool_, Head::Part::kMethod, request_.method) &&
                head_.set(pool_, Head::Part::kScheme, url_.secure ? "https" : "http") &&
                head_.set(pool_, Head::Part::kAuthority, url_.authority);
    for (const auto& [name, value] : request_.fields) {
      if (!http1::is_token(name)) {
        return absl::InvalidArgumentError(absl::StrCat("expected the name of a header field, got ", in_quotes(name)));
      }
      if (absl::EqualsIgnoreCase(name, "host")) {
        room = room && head_.set(pool_, Head::Part::kAuthority, value);
      } else {
        room = room && head_.fields.add_lowered(pool_, name, value);
      }
    }
    room = room && identify(pool_, http_, peer_, ids_, refused_, head_, identity_) &&
           head_.set(pool_, Head::Part::kScheme, scheme());
    return room ? absl::OkStatus() : absl::InvalidArgumentError("the request is longer than a head can be");
  }

  std::string_view host() { return canonical_host(url_.authority, host_scratch_); }

  RequestAttributes facts() {
    return {.host = canonical_host(head_.authority(), host_scratch_),
            .path = path_,
            .query = query_,
            .authority = head_.authority(),
            .method = head_.method(),
            .scheme = head_.scheme(),
            .fields = &head_.fields,
            .client = &identity_.client,
            .agreed = is_secure(listener_) ? &agreed_ : nullptr,
            .listener = listener_.name,
            .request_id = head_.fields.text(identity_.request_id),
            .trace_id = head_.fields.text(identity_.trace_id),
            .http2 = false};
  }

  std::string_view scheme() const {
    const bool secure =
        identity_.scheme == ForwardedScheme::kNone ? url_.secure : identity_.scheme == ForwardedScheme::kHttps;
    return secure ? "https" : "http";
  }

  // Adds the client's address, if proxies may forward it, and the ids, which are different for each request.
  void add_identity() {
    const TrustedProxies proxies(http_);
    std::array<char, ClientIp::kTextBytes> peer_room, client_room;
    const std::string_view peer = peer_.text(peer_room), client = identity_.client.text(client_room);
    if (proxies.any()) {
      lines_.add("client", client != peer
                               ? absl::StrCat(client, ", from X-Forwarded-For of ", peer, ", which is trusted")
                           : proxies.trusts(peer_) ? absl::StrCat(client, ", whose X-Forwarded-For is trusted")
                                                   : absl::StrCat(client, ", whose X-Forwarded-For is not trusted"));
    }
    for (size_t i = 0; i < refused_.size(); ++i) {
      if (refused_[i].value() == 0) continue;
      lines_.add("", absl::StrCat(claim_name(static_cast<Claim>(i)), " is malformed, or has too few entries"));
    }
    const auto add_id = [&](std::string_view word, Text id) {
      if (id.size > 0) lines_.add(word, absl::StrCat(head_.fields.text(id), ", for this request only"));
    };
    add_id("request id", identity_.request_id);
    add_id("trace id", identity_.trace_id);
  }

  // Returns false if the request is for a tunnel that the listener does not allow.
  bool is_allowed() {
    const bool connect = head_.method() == "CONNECT";
    const bool websocket = absl::EqualsIgnoreCase(head_.fields.value("upgrade"), "websocket");
    if (connect ? http_.allow_connect : http_.websocket || !websocket) return true;
    lines_.add("response", connect ? "501, because allow_connect is off" : "501, because websocket is off");
    return false;
  }

  // Returns false if the path is not allowed.
  bool find_path() {
    if (head_.method() == "CONNECT") return true;  // CONNECT has no path
    std::string scratch(url_.target.size(), '\0');
    const CanonicalTarget canonical = canonical_target(url_.target, http_.paths, scratch);
    if (canonical.status == PathStatus::kInvalid) {
      lines_.add("path", absl::StrCat("has ", canonical.error));
      lines_.add("response", "400, the path is not allowed");
      return false;
    }
    path_ = std::string(canonical.path());
    query_ = std::string(absl::StripPrefix(canonical.target.substr(canonical.path_bytes), "?"));
    lines_.add("path", absl::StrCat(path_, canonical.status == PathStatus::kChanged ? ", in its canonical form" : "",
                                    query_.empty() ? "" : absl::StrCat("; query ", query_)));
    return true;
  }

  void find_route() {
    for (const std::string& name : reserved_headers(http_)) head_.fields.remove(name);
    const HttpRouter router(http_, config_.upstreams);
    const HttpTarget* const target = router.route(facts());
    const std::vector<config::HttpRoute> routes = config::routes_of(http_);
    const size_t last = target ? target->index : routes.size();
    for (size_t i = 0; i < std::min(last + 1, routes.size()); ++i) {
      const std::string why = routes[i].match ? why_not(*routes[i].match, facts()) : "";
      SLUICE_CHECK(why.empty() == (i == last));  // the explanation must agree with the router
      lines_.add(i == 0 ? "routes" : "", absl::StrCat(http_.forward.empty() ? absl::StrCat("routes[", i, "]: ") : "",
                                                      why.empty() ? "taken" : absl::StrCat("no: ", why)));
    }
    const AccessWords access = access_words(http_, target ? target->route.get() : nullptr, identity_.client, head_);
    for (const auto& [word, text] : access.lines) lines_.add(word, text);
    if (!access.response.empty()) return lines_.add("response", access.response);
    if (!target) return lines_.add("response", "404, no route");
    change_identity(*target->route);
    add_response(*target->route);
  }

  // Changes the fields as ListenerAccess and an authorizer do.
  void change_identity(const config::HttpRoute& route) {
    remove_credentials(route);
    if (!route.forward_auth) return;
    for (const config::FieldName& name : route.forward_auth->response_headers) {
      head_.fields.remove(name.text());
      (void)head_.fields.add(pool_, name.text(), absl::StrCat("(from ", route.forward_auth->to, ")"));
    }
  }

  void remove_credentials(const config::HttpRoute& route) {
    if (!route.auth) return;
    const auto& jwt = route.auth->jwt;
    if (!route.auth->forward) head_.fields.remove(jwt ? std::string_view(jwt->header.text()) : "authorization");
    if (!jwt) return;
    for (const config::ClaimHeader& claim : jwt->claims) {
      (void)head_.fields.add(pool_, claim.header.text(), absl::StrCat("(the claim ", claim.claim, ")"));
    }
  }

  void add_response(const config::HttpRoute& route) {
    std::array<char, 8192> scratch;
    if (route.respond) {
      return lines_.add("response", absl::StrCat(route.respond->status, ", ", route.respond->body.size(), " bytes of ",
                                                 route.respond->content_type));
    }
    if (route.readiness) return lines_.add("response", "200 (ready), or 503 (draining) from the first signal to stop");
    if (route.redirect) {
      const auto location = redirect_location(*route.redirect, route.match, facts(), http_.paths, scratch);
      return lines_.add("response",
                        absl::StrCat(route.redirect->status, ", Location: ", location.value_or("too long")));
    }
    if (is_body_too_large(route)) return;
    add_forward_words(config_, http_, route, facts(), lines_);
    if (http_.compression) lines_.add("compresses", compression_for(*http_.compression, route, head_));
    add_forwarded_request(route, *upstreams_of(config_, route).front());
  }

  // Checks the body only if the request declares its length.
  bool is_body_too_large(const config::HttpRoute& route) {
    const uint64_t most = max_body_bytes(http_, route);
    uint64_t bytes = 0;
    if (most == 0 || !absl::SimpleAtoi(head_.fields.value("content-length"), &bytes) || bytes <= most) return false;
    lines_.add("response", absl::StrCat("413, a body of ", bytes, " bytes, where ", most, " are allowed"));
    return true;
  }

  // Changes the request as an exchange and its phases of PhaseStep::kForward do.
  void add_forwarded_request(const config::HttpRoute& route, const config::Upstream& upstream) {
    std::array<char, 8192> scratch;
    std::string target = path_;
    std::string_view authority = head_.authority();
    if (route.rewrite) {
      target =
          std::string(changed_path(*route.rewrite, route.match, facts(), http_.paths, scratch).value_or("too long"));
      if (!route.rewrite->host.empty()) authority = route.rewrite->host;
    }
    if (!query_.empty()) absl::StrAppend(&target, "?", query_);
    const bool http2 = upstream.protocol == config::Protocol::kHttp2;
    lines_.add("sends", absl::StrCat(head_.method(), " ", target, http2 ? " HTTP/2" : " HTTP/1.1"));
    lines_.add("", absl::StrCat("host: ", authority));
    const Origin origin{peer_, identity_.client, scheme(), head_.authority(), listener_.name};
    const auto facts_of = [this] { return facts(); };
    const auto share = std::ranges::find(route.split, upstream.name, &config::SplitTarget::forward);
    const bool room =
        add_origin(pool_, http_, origin, via_of(http_, false), refused_, head_) &&
        change_fields(pool_, http_.request_headers, facts_of, head_.fields) &&
        change_fields(pool_, route.request_headers, facts_of, head_.fields) &&
        (share == route.split.end() || change_fields(pool_, share->request_headers, facts_of, head_.fields));
    for (const Fields::Field field : head_.fields) lines_.add("", absl::StrCat(field.name, ": ", field.value));
    if (!room) lines_.add("response", "400, because this is longer than a head can be");
  }

  const config::Config& config_;
  const config::Listener& listener_;
  const config::Http& http_;
  const ExplainedRequest& request_;
  const Url& url_;
  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use_{&pool_};
  Head head_;
  ClientIp peer_;
  RandomIds ids_;
  ClaimCounters refused_;
  RequestIdentity identity_;
  Agreement agreed_;
  std::string path_, query_;
  std::array<char, Fields::kMaxBytes> host_scratch_;
  Lines lines_;
};

}  // namespace

absl::StatusOr<std::string> explain(const config::Config& config, const ExplainedRequest& request) {
  const absl::StatusOr<Url> url = parse_url(request.url);
  if (!url.ok()) return url.status();
  const absl::StatusOr<const config::Listener*> listener = find_listener(config, request, *url);
  if (!listener.ok()) return listener.status();
  return Explainer(config, **listener, request, *url).explain();
}

}  // namespace sluice
