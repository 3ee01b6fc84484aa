// Which clients may send requests, and which pages may read the responses.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/field_name.h"
#include "proxy/config/model/on_failure.h"
#include "proxy/config/model/regex.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// A name and a password (RFC 7617).
struct BasicAuth {
  std::string users_file;  ///< Lines of NAME:HASH, as htpasswd writes them.
  std::string realm = "sluice";

  bool operator==(const BasicAuth&) const = default;
};

/// A token claim that is forwarded to upstreams in a header field.
struct ClaimHeader {
  std::string claim;
  FieldName header;  ///< Removed from the client's request first.

  bool operator==(const ClaimHeader&) const = default;
};

/// A signed token (RFC 7519).
struct JwtAuth {
  std::string jwks_file;                       ///< The keys (RFC 7517).
  std::string issuer;                          ///< Empty: any.
  std::vector<std::string> audience;           ///< The token must be for one of these. Empty: any.
  Duration leeway = std::chrono::seconds(60);  ///< Tolerated clock difference.
  FieldName header = FieldName::parse("authorization").value();
  std::string scheme = "Bearer";  ///< The scheme before the token in that field (RFC 6750 section 2.1); may be empty.
  std::string cookie;             ///< Cookie to read the token from if the field is absent; empty: none.
  std::vector<ClaimHeader> claims;

  bool operator==(const JwtAuth&) const = default;
};

/// Client authentication: one of `basic` and `jwt` is set.
struct Auth {
  std::optional<BasicAuth> basic;
  std::optional<JwtAuth> jwt;
  bool forward = false;  ///< Whether upstreams get the field with the password or token.

  bool operator==(const Auth&) const = default;
};

/// External authorization: another server decides about each request before it goes on.
struct ForwardAuth {
  std::string to;    ///< Name of the upstream: the authorizer.
  std::string path;  ///< Of the authorization request, a GET.
  std::string host;  ///< Empty: the upstream's name.
  Duration timeout = std::chrono::seconds(5);
  std::vector<FieldName> request_headers;   ///< Of the client, for the authorizer; empty: all that describe the client.
  std::vector<FieldName> response_headers;  ///< Of its response, for the upstream; removed from the client's request.
  OnFailure on_failure = OnFailure::kRefuse;

  bool operator==(const ForwardAuth&) const = default;
};

/// External authorization by gRPC, by Envoy's service envoy.service.auth.v3.Authorization.
struct ExtAuthz {
  std::string to;  ///< Name of the upstream: the authorizer.
  Duration timeout = std::chrono::milliseconds(200);
  OnFailure on_failure = OnFailure::kRefuse;

  bool operator==(const ExtAuthz&) const = default;
};

/// Which pages from other origins may use the responses (the Fetch standard's CORS protocol).
struct Cors {
  std::vector<std::string> origins;  ///< `https://a.example`, `https://*.example.com` (one label), or `*`.
  std::vector<Regex> origin_regex;   ///< Further origins: each must match the whole origin.
  std::vector<std::string> methods;  ///< Empty: GET, HEAD and POST, which need no permission.
  std::vector<FieldName> headers;    ///< Header fields allowed in requests.
  std::vector<FieldName> expose;     ///< Response header fields that pages may read.
  bool credentials = false;
  Duration max_age = std::chrono::minutes(10);

  bool operator==(const Cors&) const = default;
};

}  // namespace sluice::config
