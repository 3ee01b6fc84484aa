#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::config {

/// Where a text is used, which determines the available variables.
enum class TextScope : uint8_t {
  kRequest,  ///< While the request is in progress.
  kLog,      ///< After the request has ended.
};

/// A variable in a text. Variables describe the client's request before any rewriting.
enum class TextVariable : uint8_t {
  kNone,  ///< Literal text.

  // Available in every text.
  kClientIp,       ///< `client_ip`: the client's address; empty for Unix sockets.
  kHost,           ///< `host`: as routes see it, without the port.
  kAuthority,      ///< `authority`: host and port, as the client sent them.
  kMethod,         ///< `method`
  kPath,           ///< `path`: canonical, without the query.
  kQuery,          ///< `query`: without the question mark.
  kScheme,         ///< `scheme`: http or https.
  kProtocol,       ///< `protocol`: HTTP/1.1 or HTTP/2.
  kListener,       ///< `listener`: its name.
  kPeer,           ///< `peer`: the client's identity, authenticated by a certificate or ALTS; otherwise empty.
  kTlsVersion,     ///< `tls_version`: TLSv1.3 and the like; empty without TLS.
  kTlsServerName,  ///< `tls_server_name`: the name that the client sent.
  kRequestId,      ///< `request_id`: see Http::request_id; empty if that is not set.
  kTraceId,        ///< `trace_id`: see Http::trace_context; empty if that is not set.
  kHeader,         ///< `header:NAME`: the first field of this name.

  // Available in the access log only.
  kTarget,            ///< `target`: the path with the query.
  kTime,              ///< `time`: start of the request, as 2026-01-02T03:04:05.678Z.
  kClfTime,           ///< `clf_time`: start of the request, as 02/Jan/2026:03:04:05 +0000.
  kStatus,            ///< `status`: sent to the client; 0: none.
  kReason,            ///< `reason`: why the request ended.
  kDetail,            ///< `detail`: the rule that a malformed request breaks.
  kDuration,          ///< `duration`: in microseconds.
  kUpstreamDuration,  ///< `upstream_duration`: microseconds until the head of the upstream's response.
  kBytesIn,           ///< `bytes_in`: size of the request body.
  kBytesOut,          ///< `bytes_out`: size of the response body.
  kRoute,             ///< `route`: its name, or its number.
  kUpstream,          ///< `upstream`: its name.
  kEndpoint,          ///< `endpoint`: its address.
  kAttempts,          ///< `attempts`: number of attempts on endpoints.
  kTlsCipher,         ///< `tls_cipher`
  kClientPort,        ///< `client_port`: of the client's address; 0 for Unix sockets.
  kUser,              ///< `user`: whom `auth` has admitted; empty without it.
  kGrpcStatus,        ///< `grpc_status`: of a gRPC call; unknown for other requests, and if no status was sent.
  kConnectDuration,   ///< `connect_duration`: microseconds from the first attempt on an endpoint to a connection.
  kBytesPinned,       ///< `bytes_pinned`: the most bytes that waited here at once.
  kResponseHeader,    ///< `response_header:NAME`: the first field of this name in the response to the client.
};

/// The name of a variable, as in the list above; `header` and `response_header` without a field's name.
std::string_view name_of(TextVariable variable);
/// Whether its value is a number.
bool is_number(TextVariable variable);
/// Whether the access log of a `tcp` listener, or that of an `http` listener, has it. True for literal text.
bool is_of_connection(TextVariable variable);
bool is_of_request(TextVariable variable);
/// The names of the variables of connections, for messages.
std::string connection_variables();

/// A text with variables such as `%{client_ip}`; a percent sign is written `%%`. It must be a valid field value:
/// visible characters, and blanks between them.
///
///   absl::StatusOr<TextTemplate> text = TextTemplate::parse("for=%{client_ip}");
///   // text->pieces(): { kNone, "for=" }, { kClientIp, "" }
class TextTemplate {
 public:
  struct Piece {
    TextVariable variable = TextVariable::kNone;
    std::string text;  ///< The literal text, or the NAME of kHeader and kResponseHeader in lower case.

    bool operator==(const Piece&) const = default;
  };

  TextTemplate() = default;

  static absl::StatusOr<TextTemplate> parse(std::string_view text, TextScope scope = TextScope::kRequest);
  /// Finds a variable by the name that it has between `%{` and `}`.
  static absl::StatusOr<Piece> parse_variable(std::string_view name, TextScope scope);

  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Whether it contains variables.
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
