#include "proxy/http/proxy/identity.h"

#include <array>
#include <optional>
#include <string>

#include "proxy/common/token.h"
#include "proxy/http/message/request_id.h"
#include "proxy/http/proxy/client_address.h"
#include "proxy/tracing/trace_context.h"

namespace sluice {

namespace {

template <size_t N>
std::string_view text_of(const std::array<char, N>& chars) {
  return {chars.data(), chars.size()};
}

// The index of the only field with this name; npos if there is none, or if there are several and it is unclear which
// one counts.
size_t find_only(const Fields& fields, std::string_view name) {
  const size_t index = fields.find(name);
  if (index == Fields::npos || fields.find(name, index + 1) != Fields::npos) return Fields::npos;
  return index;
}

class Identification {
 public:
  Identification(ChunkPool& pool, const config::Http& http, RandomIds& ids, ClaimCounters& refused, Head& request,
                 RequestIdentity& identity)
      : pool_(pool), http_(http), ids_(ids), refused_(refused), request_(request), identity_(identity) {}

  bool run(const ClientIp& peer) {
    const TrustedProxies proxies(http_);
    identity_.client = peer;
    const bool trusted = proxies.trusts(peer);
    if (trusted) {
      find_client(proxies);
      find_scheme();
    }
    return find_request_id(trusted) && find_trace();
  }

 private:
  void refuse(Claim claim) { refused_[static_cast<size_t>(claim)].add(); }

  void find_client(const TrustedProxies& proxies) {
    if (const std::optional<ClientIp> client = proxies.client(request_.fields)) {
      identity_.client = *client;
    } else if (request_.fields.find("x-forwarded-for") != Fields::npos) {
      refuse(Claim::kForwardedFor);
    }
  }

  void find_scheme() {
    constexpr std::string_view kName = "x-forwarded-proto";
    if (request_.fields.find(kName) == Fields::npos) return;
    const size_t index = find_only(request_.fields, kName);
    const std::string_view scheme = index == Fields::npos ? std::string_view() : request_.fields[index].value;
    if (http1::same(scheme, "https")) {
      identity_.scheme = ForwardedScheme::kHttps;
    } else if (http1::same(scheme, "http")) {
      identity_.scheme = ForwardedScheme::kHttp;
    } else {
      refuse(Claim::kForwardedProto);
    }
  }

  bool find_request_id(bool trusted) {
    if (!http_.request_id) return true;
    const config::RequestId& rule = *http_.request_id;
    const std::string& name = rule.header.text();
    if (rule.accept == config::TrustFrom::kAlways || (rule.accept == config::TrustFrom::kTrusted && trusted)) {
      const size_t index = find_only(request_.fields, name);
      if (index != Fields::npos && is_request_id(request_.fields[index].value)) {
        return request_.fields.keep(pool_, request_.fields[index].value, identity_.request_id);
      }
      if (request_.fields.find(name) != Fields::npos) refuse(Claim::kRequestId);
    }
    std::array<char, kRequestIdDigits> id;
    ids_.fill(id);
    request_.fields.remove(name);
    return request_.fields.add(pool_, name, text_of(id)) &&
           request_.fields.keep(pool_, text_of(id), identity_.request_id);
  }

  // W3C Trace Context section 4.
  bool find_trace() {
    constexpr std::string_view kParent = "traceparent", kState = "tracestate";
    if (http_.trace_context == config::TraceContext::kOff) return true;
    Fields& fields = request_.fields;
    const size_t index = fields.find(kParent);
    const bool given = index != Fields::npos;
    std::optional<TraceParent> parent;
    if (given && fields.find(kParent, index + 1) == Fields::npos) parent = TraceParent::parse(fields[index].value);
    if (given) fields.remove(kParent);
    if (!parent) {
      if (given) refuse(Claim::kTraceParent);
      fields.remove(kState);  // It is meaningless without its traceparent.
      if (http_.trace_context == config::TraceContext::kPass) return true;
      parent.emplace();
      ids_.fill(parent->trace_id);
      parent->sampled = samples();
    } else if (http_.tracing && parent->sampled &&
               !fields.keep(pool_, text_of(parent->parent_id), identity_.parent_span)) {
      return false;
    }
    identity_.recorded = http_.tracing && parent->sampled;
    ids_.fill(parent->parent_id);
    if (!fields.add(pool_, kParent, text_of(parent->text()))) return false;
    const Text value = fields.value_text(fields.size() - 1);
    identity_.trace_id = {static_cast<uint16_t>(value.offset + TraceParent::kTraceIdAt), TraceParent::kTraceIdDigits};
    return true;
  }

  // Whether a trace that begins here is recorded. Without tracing here the later services decide: if the flag were not
  // set, none of them would record it.
  bool samples() {
    if (!http_.tracing || http_.tracing->sample.is_all()) return true;
    return ids_.next() % config::Share::kOne < http_.tracing->sample.millionths();
  }

  ChunkPool& pool_;
  const config::Http& http_;
  RandomIds& ids_;
  ClaimCounters& refused_;
  Head& request_;
  RequestIdentity& identity_;
};

}  // namespace

bool identifies(const config::Http& http) {
  return TrustedProxies(http).any() || http.request_id || http.trace_context != config::TraceContext::kOff;
}

bool identify(ChunkPool& pool, const config::Http& http, const ClientIp& peer, RandomIds& ids, ClaimCounters& refused,
              Head& request, RequestIdentity& identity) {
  return Identification(pool, http, ids, refused, request, identity).run(peer);
}

}  // namespace sluice
