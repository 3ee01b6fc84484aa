// The messages of Envoy's envoy.service.auth.v3.Authorization/Check (envoy/service/auth/v3/external_auth.proto), as far
// as the proxy speaks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/common/peer_address.h"
#include "proxy/common/proto_reader.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/header_option.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

inline constexpr std::string_view kExtAuthzPath = "/envoy.service.auth.v3.Authorization/Check";

/// What a CheckRequest says about a request.
struct CheckedRequest {
  const Head& head;  ///< As it will be forwarded, so far.
  const RequestAttributes& facts;
  PeerAddress local;        ///< That the client has connected to.
  bool ended;               ///< It has no body.
  int64_t unix_micros = 0;  ///< When it was received.
};

/// Room for the CheckRequest of any request whose head is within Fields::kMaxBytes.
inline constexpr size_t kMaxCheckRequestBytes = size_t{512} * 1024;
/// Writes a CheckRequest. Empty if there is no room for it.
std::string_view write_check_request(const CheckedRequest& request, std::span<char> room);

/// A CheckResponse. The views are parts of the message that it was read from.
struct CheckResponse {
  enum class Verdict : uint8_t { kAllowed, kDenied, kError };

  Verdict verdict = Verdict::kError;
  uint16_t status = 403;          ///< For the client, if it is denied.
  std::string_view body;          ///< The same.
  std::string_view details;       ///< The DeniedHttpResponse or OkHttpResponse.
  bool changes_response = false;  ///< Whether the client's response gets fields.
};

/// Reads a CheckResponse. Nothing if it is malformed, or sets a field that no service may set.
std::optional<CheckResponse> read_check_response(std::string_view message);

/// Changes the fields of a request that is allowed. Returns false if they have no room.
[[nodiscard]] bool change_request(ChunkPool& pool, const CheckResponse& response, Fields& request);
/// Adds the fields of a DeniedHttpResponse to the client's response. Those of its framing are left out.
[[nodiscard]] bool add_denied_fields(ChunkPool& pool, const CheckResponse& response, Fields& to);
/// Adds the fields that an OkHttpResponse, in `details`, has for the client's response.
[[nodiscard]] bool change_client_response(ChunkPool& pool, std::string_view details, Fields& to);

}  // namespace sluice
