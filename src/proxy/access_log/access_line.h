// Formats a request's line in the access log. docs/guides/access-log.md describes its fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/access_log/kept_values.h"
#include "proxy/config/model/log_format.h"
#include "proxy/log/line_ring.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The facts of a finished request for the access log. Empty views are logged as `-`.
struct AccessRecord {
  int64_t time_ms = 0;        ///< When the request began, in wall-clock time since 1970.
  std::string_view client;    ///< Address.
  std::string_view listener;  ///< Name.
  std::string_view protocol;  ///< `HTTP/1.1`, `HTTP/2`.
  std::string_view tls;       ///< `TLSv1.3`, `ALTS`; empty for neither.
  std::string_view cipher;    ///< `TLS_AES_128_GCM_SHA256`
  std::string_view method;
  std::string_view authority;
  std::string_view path;        ///< The canonical form, with the query.
  uint16_t status = 0;          ///< 0: no response was sent.
  std::string_view reason;      ///< Why the request ended: `ok`, `no_route`, ...
  std::string_view detail;      ///< The rule that a malformed request breaks.
  uint64_t request_bytes = 0;   ///< Body bytes received from the client.
  uint64_t response_bytes = 0;  ///< Body bytes sent to the client.
  uint64_t duration_us = 0;
  std::optional<uint64_t> upstream_us;  ///< Time until the upstream's response head; `-` if none arrived.
  std::string_view route;               ///< Name, or number if it has no name.
  std::string_view upstream;            ///< Name.
  std::string_view endpoint;            ///< Address.
  uint32_t attempts = 0;                ///< Attempts on endpoints.
  std::string_view user_agent;
  std::string_view request_id;
  std::string_view trace_id;
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
