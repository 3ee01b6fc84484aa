// Formats the line of a request or a connection in the access log. docs/guides/access-log.md describes its fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/access_log/kept_values.h"
#include "proxy/config/model/log_format.h"
#include "proxy/log/line_queue.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The facts of a finished request, or of a finished connection of a `tcp` listener, for the access log. Empty views
/// are logged as `-`.
struct AccessRecord {
  enum class Kind : uint8_t { kRequest, kConnection };

  Kind kind = Kind::kRequest;
  int64_t time_ms = 0;           ///< When it began, in wall-clock time since 1970.
  std::string_view client;       ///< IP address.
  uint16_t client_port = 0;      ///< 0: unknown, or the client is at a Unix socket.
  std::string_view listener;     ///< Name.
  std::string_view protocol;     ///< `HTTP/1.1`, `HTTP/2`, `TCP`.
  std::string_view tls;          ///< `TLSv1.3`, `ALTS`; empty for neither.
  std::string_view cipher;       ///< `TLS_AES_128_GCM_SHA256`
  std::string_view server_name;  ///< The name that a TLS client sent.
  std::string_view method;
  std::string_view authority;
  std::string_view path;        ///< The canonical form, with the query.
  uint16_t status = 0;          ///< 0: no response was sent.
  std::string_view reason;      ///< Why it ended: `ok`, `no_route`, ...
  std::string_view detail;      ///< The rule that a malformed request breaks.
  uint64_t request_bytes = 0;   ///< Received from the client: of the body; of a connection, all behind its handshake.
  uint64_t response_bytes = 0;  ///< Passed on to the client, likewise.
  uint64_t pinned_bytes = 0;    ///< The most bytes, of bodies or of the connection, that waited here at once.
  uint64_t duration_us = 0;
  /// Time until the upstream's response head. Of a connection: from the first attempt until an endpoint was connected.
  /// Not set if that did not happen.
  std::optional<uint64_t> upstream_us;
  std::string_view route;              ///< Name, or number if it has no name.
  std::string_view upstream;           ///< Name.
  std::string_view endpoint;           ///< Address.
  uint32_t attempts = 0;               ///< Attempts on endpoints.
  std::string_view user;               ///< Whom `auth` has admitted.
  std::optional<uint8_t> grpc_status;  ///< That the client of a gRPC call was sent.
  std::string_view user_agent;
  std::string_view request_id;
  std::string_view trace_id;
  std::string_view span_id;                  ///< Of the request, if it is recorded.
  const RequestAttributes* facts = nullptr;  ///< Further facts for a configured format; else null.
  KeptValues response_fields;                ///< Response fields, one for each variable of that format.
};

/// Writes the line in the given format, newline included, and returns its length. Texts are escaped and cut to a
/// maximum size, so that every record gives one line with the same fields in the same positions. Precondition: `out`
/// has room for kMaxLogLineBytes.
size_t format_access_line(const config::LogFormat& format, const AccessRecord& record, std::span<char> out);

/// The implementations for each LogFormat::Kind.
size_t format_default_line(const AccessRecord& record, std::span<char> out);
size_t format_json_line(const AccessRecord& record, std::span<char> out);
size_t format_text_line(const config::TextTemplate& line, const AccessRecord& record, std::span<char> out);

}  // namespace sluice
