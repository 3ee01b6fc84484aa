// A request's line in the access log. docs/access-log.md tells users what is in it.
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

/// What the log tells of a request. Views that are empty are written as `-`.
struct AccessRecord {
  int64_t time_ms = 0;        ///< When it began, by the wall clock, since 1970.
  std::string_view client;    ///< Address.
  std::string_view listener;  ///< Name.
  std::string_view protocol;  ///< `HTTP/1.1`, `HTTP/2`.
  std::string_view tls;       ///< `TLSv1.3`, `ALTS`; empty: neither.
  std::string_view cipher;    ///< `TLS_AES_128_GCM_SHA256`
  std::string_view method;
  std::string_view authority;
  std::string_view path;        ///< In its canonical form, with the query.
  uint16_t status = 0;          ///< 0: the client was sent none.
  std::string_view reason;      ///< Why it ended, in a fixed word: `ok`, `no_route`, ...
  uint64_t request_bytes = 0;   ///< Of the body, from the client.
  uint64_t response_bytes = 0;  ///< Of the body, to the client.
  uint64_t duration_us = 0;
  std::optional<uint64_t> upstream_us;  ///< Until the upstream's response head; none came: `-`.
  std::string_view route;               ///< Name, or number where it has none.
  std::string_view upstream;            ///< Name.
  std::string_view endpoint;            ///< Address.
  uint32_t attempts = 0;                ///< On endpoints.
  std::string_view user_agent;
  std::string_view request_id;
  std::string_view trace_id;
  const RequestAttributes* facts = nullptr;  ///< For a line of a user's own: what else it may say of the request,
  KeptValues response_fields;                ///< and of the fields of the response, one for each of its variables.
};

/// Writes the line with its '\n', as the format has it, and returns its length. Texts are escaped, and cut where they
/// are long, so that any record gives one line with the same fields in the same places.
/// Precondition: `out` has room for kMaxLogLineBytes.
size_t format_access_line(const config::LogFormat& format, const AccessRecord& record, std::span<char> out);

/// One for each LogFormat::Kind.
size_t format_default_line(const AccessRecord& record, std::span<char> out);
size_t format_json_line(const AccessRecord& record, std::span<char> out);
size_t format_text_line(const config::TextTemplate& line, const AccessRecord& record, std::span<char> out);

}  // namespace sluice
