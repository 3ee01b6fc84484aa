#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::config {

/// Where a text is used, which says what is known by then.
enum class TextScope : uint8_t {
  kRequest,  ///< While the request is under way.
  kLog,      ///< When it has ended.
};

/// What a text may say of a request. What the client asked for is meant, before any rewriting.
enum class TextVariable : uint8_t {
  kNone,  ///< It stands as it is written.

  // In every text.
  kClientIp,       ///< `client_ip`: the client's address; empty for Unix sockets.
  kHost,           ///< `host`: as routes see it, without the port.
  kAuthority,      ///< `authority`: host and port, as the client wrote them.
  kMethod,         ///< `method`
  kPath,           ///< `path`: canonical, without the query.
  kQuery,          ///< `query`: without the question mark.
  kScheme,         ///< `scheme`: http or https.
  kProtocol,       ///< `protocol`: HTTP/1.1 or HTTP/2.
  kListener,       ///< `listener`: its name.
  kPeer,           ///< `peer`: who the client has proven to be, by a certificate or ALTS; else empty.
  kTlsVersion,     ///< `tls_version`: TLSv1.3 and the like; empty without TLS.
  kTlsServerName,  ///< `tls_server_name`: that the client sent.
  kRequestId,      ///< `request_id`: as Http::request_id has it; empty where that is not set.
  kTraceId,        ///< `trace_id`: the same, of Http::trace_context.
  kHeader,         ///< `header:NAME`: the first field of this name.

  // In the access log only.
  kTarget,            ///< `target`: the path with the query.
  kTime,              ///< `time`: when it began, as 2026-01-02T03:04:05.678Z,
  kClfTime,           ///< `clf_time`: or as 02/Jan/2026:03:04:05 +0000.
  kStatus,            ///< `status`: that the client was sent; 0: none.
  kReason,            ///< `reason`: why it ended.
  kDuration,          ///< `duration`: microseconds,
  kUpstreamDuration,  ///< `upstream_duration`: and until the head of the upstream's response.
  kBytesIn,           ///< `bytes_in`: of the request's body,
  kBytesOut,          ///< `bytes_out`: and of the response's.
  kRoute,             ///< `route`: its name, or its number.
  kUpstream,          ///< `upstream`: its name.
  kEndpoint,          ///< `endpoint`: its address.
  kAttempts,          ///< `attempts`: on endpoints.
  kTlsCipher,         ///< `tls_cipher`
  kResponseHeader,    ///< `response_header:NAME`: the first field of this name that the client was sent.
};

/// A text with variables: `%{client_ip}`; a percent sign is written `%%`. It is a field's value: visible characters,
/// and blanks between them.
///
///   absl::StatusOr<TextTemplate> text = TextTemplate::parse("for=%{client_ip}");
///   // text->pieces(): { kNone, "for=" }, { kClientIp, "" }
class TextTemplate {
 public:
  struct Piece {
    TextVariable variable = TextVariable::kNone;
    std::string text;  ///< What stands there, or the NAME of kHeader and kResponseHeader in lower case.

    bool operator==(const Piece&) const = default;
  };

  TextTemplate() = default;

  static absl::StatusOr<TextTemplate> parse(std::string_view text, TextScope scope = TextScope::kRequest);

  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Whether it says something of the request.
  bool has_variables() const;
  bool empty() const { return pieces_.empty(); }
  /// In the form that parse() reads.
  const std::string& text() const { return text_; }

  bool operator==(const TextTemplate&) const = default;

 private:
  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace sluice::config
