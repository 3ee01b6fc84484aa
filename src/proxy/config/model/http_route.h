// The HTTP routing table: which requests a route is for, and what becomes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/access.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/buffering.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/maintenance.h"
#include "proxy/config/model/overload.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/config/model/regex.h"
#include "proxy/config/model/retry.h"
#include "proxy/config/model/text_template.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// The paths that a route matches. Exactly one of the three is given; it is compared with the canonical path, without
/// the query.
struct PathMatch {
  std::string exact;
  /// `/v1` matches `/v1` and every path below it, but not `/v10`; `/v1/` matches only the paths below it.
  std::string prefix;
  Regex regex;  ///< Must match the whole path. A request without a path (CONNECT) never matches.

  bool operator==(const PathMatch&) const = default;
};

/// Conditions on a value. Every member that is set must hold.
struct ValueMatch {
  std::string exact, prefix, suffix, contains;
  Regex regex;          ///< Must match the whole value.
  bool negate = false;  ///< Inverts the match: no field or parameter of that name may match.

  bool operator==(const ValueMatch&) const = default;
};

/// A header field condition: at least one field of this name must match.
struct HeaderMatch : ValueMatch {
  FieldName name;

  bool operator==(const HeaderMatch&) const = default;
};

/// A query parameter condition: at least one parameter of this name must match. Name and value are compared as they are
/// written in the query, escapes included.
struct QueryMatch : ValueMatch {
  std::string name;

  bool operator==(const QueryMatch&) const = default;
};

/// The conditions of an HTTP route. Every member that is given must hold.
struct HttpMatch {
  std::vector<HostPattern> host;  ///< One must match. The port is ignored.
  std::optional<PathMatch> path;
  std::vector<std::string> method;   ///< One must match.
  std::vector<HeaderMatch> headers;  ///< All must match.
  std::vector<QueryMatch> query;     ///< All must match.
  std::vector<Cidr> source;          ///< One must contain the client's address.
  std::vector<std::string> peer;     ///< As TcpMatch::peer.

  bool operator==(const HttpMatch&) const = default;
};

/// A fixed response, without an upstream.
struct Respond {
  uint32_t status = 200;  ///< 200 to 599.
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";

  bool operator==(const Respond&) const = default;
};

/// A change of the requested path; the query is kept. At most one of `path`, `prefix` and `regex` is set.
struct PathChange {
  std::string path;
  /// Replaces the prefix given in HttpMatch::path, at segment boundaries: replacing `/v1` with `/` turns `/v1/x` into
  /// `/x`.
  std::string prefix;
  /// A path that this matches as a whole becomes `substitution`, in which `\1` is the text of the first group. Any
  /// other path is unchanged.
  Regex regex;
  std::string substitution;

  bool leaves_path() const { return path.empty() && prefix.empty() && !regex.is_set(); }
  bool operator==(const PathChange&) const = default;
};

/// A change of the request that is forwarded to the upstream.
struct Rewrite : PathChange {
  std::string host;  ///< The host, with an optional port; empty: the client's.

  bool operator==(const Rewrite&) const = default;
};

/// A redirect. Parts of the URL that are not given stay as the client sent them, except that a changed scheme or host
/// drops the client's port.
struct Redirect : PathChange {
  uint32_t status = 301;  ///< 301, 302, 303, 307 or 308. 301 as in Envoy, and in nginx for `permanent`.
  std::string scheme;     ///< http or https.
  std::string host;
  uint32_t port = 0;  ///< 0: the scheme's own.
  bool drop_query = false;

  bool operator==(const Redirect&) const = default;
};

/// A change to the header fields of one name: one of `set`, `add` and `remove`. A template that expands to an empty
/// value yields no field.
struct FieldChange {
  FieldName name;
  TextTemplate set;  ///< Replaces all fields of this name.
  TextTemplate add;  ///< Appended after them.
  bool remove = false;

  bool operator==(const FieldChange&) const = default;
};

/// An upstream that gets a share of a route's requests.
struct SplitTarget {
  std::string forward;  ///< Name of an upstream.
  uint32_t weight = 1;
  std::vector<FieldChange> request_headers = {};   ///< Applied to the requests that it gets, after those of the route.
  std::vector<FieldChange> response_headers = {};  ///< Applied to the responses to them, after those of the route.

  bool operator==(const SplitTarget&) const = default;
};

/// One entry of the HTTP routing table. The first match wins.
struct HttpRoute {
  std::optional<HttpMatch> match;  ///< Absent: matches every request.
  std::string name;                ///< For the logs.
  /// Name of an upstream. Exactly one of this, `split`, `respond`, `redirect` and `readiness`.
  std::string forward;
  std::vector<SplitTarget> split;  ///< Chosen at random, by weight.
  std::optional<Respond> respond;
  std::optional<Redirect> redirect;
  bool readiness = false;                ///< Responds whether the process takes new connections: instead of the others.
  std::optional<Rewrite> rewrite;        ///< Of the forwarded request.
  std::vector<Cidr> allow, deny;         ///< As in Http; both levels apply.
  std::vector<std::string> rate_limits;  ///< As in Http; both levels apply.
  std::vector<std::string> response_bandwidth, request_bandwidth;  ///< As in Http; both levels apply.
  std::vector<RateDescriptor> rate_limit_descriptors;              ///< For Http::global_rate_limits, after those there.
  Priority priority = Priority::kNormal;  ///< While a worker is overloaded. `readiness` routes count as high.
  std::optional<Maintenance> maintenance;
  std::optional<Auth> auth;
  std::optional<ForwardAuth> forward_auth;  ///< Asked after `auth`.
  std::optional<ExtAuthz> ext_authz;        ///< Asked after `auth`, instead of `forward_auth`.
  std::optional<Cors> cors;
  std::optional<Duration> request_timeout, stream_idle_timeout;  ///< Override those of Http.
  std::optional<Duration> response_timeout;                      ///< Overrides that of Upstream.
  std::optional<Retry> retry;
  std::vector<Mirror> mirror;
  std::optional<Buffering> buffer;
  bool compression = true;                    ///< Has no effect unless Http::compression is set.
  std::optional<Size> max_body;               ///< Overrides Http::max_body.
  std::vector<FieldChange> request_headers;   ///< Applied to forwarded requests, after those of Http.
  std::vector<FieldChange> response_headers;  ///< Applied to every response, after those of Http.

  bool operator==(const HttpRoute&) const = default;
};

}  // namespace sluice::config
