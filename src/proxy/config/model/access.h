// Who may ask, and what browsers may do with the answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/field_name.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// A name and a password (RFC 7617).
struct BasicAuth {
  std::string users_file;  ///< Lines of NAME:HASH, as htpasswd writes them.
  std::string realm = "sluice";

  bool operator==(const BasicAuth&) const = default;
};

/// A claim of a token that upstreams are told.
struct ClaimHeader {
  std::string claim;
  FieldName header;  ///< Taken away from what the client sends.

  bool operator==(const ClaimHeader&) const = default;
};

/// A signed token (RFC 7519).
struct JwtAuth {
  std::string jwks_file;                       ///< The keys (RFC 7517).
  std::string issuer;                          ///< Empty: any.
  std::vector<std::string> audience;           ///< One of which the token must be for. Empty: any.
  Duration leeway = std::chrono::seconds(60);  ///< Between the clocks.
  FieldName header = FieldName::parse("authorization").value();
  std::string scheme = "Bearer";  ///< What is before the token in it (RFC 6750 section 2.1); empty: nothing.
  std::string cookie;             ///< Where it is looked for behind that; empty: nowhere.
  std::vector<ClaimHeader> claims;

  bool operator==(const JwtAuth&) const = default;
};

/// Who a client must have proven to be: one of the two.
struct Auth {
  std::optional<BasicAuth> basic;
  std::optional<JwtAuth> jwt;
  bool forward = false;  ///< Whether upstreams get the field with the proof.

  bool operator==(const Auth&) const = default;
};

/// Which pages of others may use the answers (the Fetch standard's CORS protocol).
struct Cors {
  std::vector<std::string> origins;  ///< `https://a.example`, `https://*.example.com` (one label), or `*`.
  std::vector<std::string> methods;  ///< Empty: GET, HEAD and POST, which need no leave.
  std::vector<FieldName> headers;    ///< That requests may have.
  std::vector<FieldName> expose;     ///< Of answers, that pages may read.
  bool credentials = false;
  Duration max_age = std::chrono::minutes(10);

  bool operator==(const Cors&) const = default;
};

}  // namespace sluice::config
