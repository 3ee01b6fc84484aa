#include "proxy/http/proxy/request_context.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "net/worker.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/shared_address.h"
#include "proxy/router/canonical_path.h"
#include "proxy/router/http_router.h"

namespace sluice {

namespace {

// What each stream may queue even if its connection has very many streams, as long as memory is not short.
constexpr size_t kStreamMarkMin = size_t{16} * 1024;

// All streams of a connection together may queue this multiple of config::Http::buffer_high.
constexpr size_t kConnectionMarks = 4;

}  // namespace

RequestContext::RequestContext(HttpSession& session, HttpStream& client, void (*look)(void* context))
    : PhaseContext(session.services().worker(), session.listener().phases.of(nullptr)),
      listener_(session.listener()),
      session_(&session),
      client_(&client),
      deadlines_(loop_, look, this) {}

HttpWorker& RequestContext::http_worker() const { return listener_.http; }
const config::Http& RequestContext::config() const { return *listener_.config; }

size_t RequestContext::high_mark() const {
  const size_t of_connection = config().buffer_high.bytes * kConnectionMarks / (session_ ? session_->streams() : 1);
  return loop_.share(std::min<size_t>(config().buffer_high.bytes, std::max(of_connection, kStreamMarkMin)));
}

ChunkPointer<BodyBuffer> RequestContext::make_body_buffer(uint64_t most_bytes, void (*moved)(void* context),
                                                          void* context) {
  return make_in_chunk<BodyBuffer>(pool(), loop_, http_worker().body_file(), most_bytes, listener_.counters.body_file,
                                   moved, context);
}

RequestAttributes RequestContext::attributes() const {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  RequestAttributes all = attributes_but_host_and_path();
  const std::string_view target = original_path();
  const size_t path_bytes = std::min(target.find('?'), target.size());
  all.host = canonical_host(all.authority, scratch);
  all.path = target.substr(0, path_bytes);
  all.query = target.substr(std::min(path_bytes + 1, target.size()));
  return all;
}

RequestAttributes RequestContext::attributes_but_host_and_path() const {
  const bool is_peer = !listener_.identifies || identity_.client == session_->client_ip();
  return {.authority = original_authority(),
          .method = request_.method(),
          .scheme = request_.scheme(),
          .fields = &request_.fields,
          .client = &client_ip(),
          .agreed = session_->agreed(),
          .listener = listener_.listener->name,
          .request_id = request_.fields.text(identity_.request_id),
          .trace_id = request_.fields.text(identity_.trace_id),
          .client_port = is_peer ? session_->client_port() : uint16_t{0},
          .http2 = session_->http2()};
}

const ClientIp& RequestContext::client_ip() const {
  return listener_.identifies ? identity_.client : session_->client_ip();
}

std::string_view RequestContext::scheme() const {
  switch (identity_.scheme) {
    case ForwardedScheme::kHttp:
      return "http";
    case ForwardedScheme::kHttps:
      return "https";
    case ForwardedScheme::kNone:
      break;
  }
  return listener_.codecs->http1.secure ? "https" : "http";
}

std::string_view RequestContext::original_path() const {
  return original_path_.size > 0 ? request_.fields.text(original_path_) : request_.path();
}

std::string_view RequestContext::original_authority() const {
  return original_authority_.size > 0 || hostless_ ? request_.fields.text(original_authority_) : request_.authority();
}

bool RequestContext::find_identity() {
  return identify(pool(), config(), session_->client_ip(), http_worker().ids(), listener_.counters.claims_refused,
                  request_, identity_);
}

bool RequestContext::make_canonical() {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const CanonicalTarget canonical = canonical_target(request_.path(), config().paths, scratch);
  HttpCounters& counters = listener_.counters;
  if (canonical.relaxed.merged_slashes) counters.slashes_merged.add();
  if (canonical.relaxed.escaped_slashes) counters.slashes_escaped.add();
  if (canonical.relaxed.backslashes) counters.backslashes.add();
  if (canonical.relaxed.dot_parameters) counters.dot_parameters.add();
  switch (canonical.status) {
    case PathStatus::kSame:
      return true;
    case PathStatus::kChanged:
      counters.paths_changed.add();
      return request_.set(pool(), Head::Part::kPath, canonical.target);
    case PathStatus::kInvalid:
      break;
  }
  return false;
}

bool RequestContext::is_misdirected() const {
  const RequestAttributes request = attributes();
  if (request.host.empty()) return false;
  ClientAcceptor* const owner = listener_.shared->find(request.host);
  return owner && owner->listener().config->name != listener_.listener->name;
}

// Routes are chosen without the fields that no client may set.
void RequestContext::find_route() {
  for (const std::string& name : listener_.reserved_headers) request_.fields.remove(name);
  target_ = listener_.router.route(attributes());
  phases_ = listener_.phases.of(target_);
}

bool RequestContext::add_origin_fields() {
  const Origin origin{session_->client_ip(), client_ip(), scheme(), original_authority(), listener_.listener->name};
  return add_origin(pool(), config(), origin, session_->http2() ? listener_.via_http2 : listener_.via_http1,
                    listener_.counters.claims_refused, request_);
}

}  // namespace sluice
