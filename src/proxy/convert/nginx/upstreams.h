// What `proxy_pass` and its like name, as upstreams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/convert/nginx/state.h"

namespace sluice::convert::nginx {

enum class Spoken : uint8_t { kHttp, kGrpc, kBytes };

/// The name of a directive that is there for HTTP and for gRPC: proxy_read_timeout, grpc_read_timeout.
inline std::string passing_name(Spoken spoken, std::string_view rest) {
  return absl::StrCat(spoken == Spoken::kGrpc ? "grpc_" : "proxy_", rest);
}

/// `http://app/v1/`, in its parts.
struct PassTarget {
  std::string server;  ///< Name of an `upstream`, or an address.
  std::string uri;     ///< Empty if there is none, which is not the same as `/`.
  bool has_tls = false;
};

/// Nothing if it cannot be read, or has variables.
std::optional<PassTarget> parse_pass(std::string_view text, Spoken spoken);

/// The name of the upstream that is this server as `scope` has it speak to it. Nothing if it has no endpoints, or
/// cannot be said, which a finding says.
std::optional<std::string> upstream_for(const PassTarget& target, Spoken spoken, const Scope& scope,
                                        const Directive& pass, State& state);

}  // namespace sluice::convert::nginx
