#include "proxy/http/h1/head_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "proxy/common/token.h"
#include "proxy/http/h1/field_line.h"
#include "proxy/http/h1/start_line.h"
#include "proxy/http/message/message_rules.h"
#include "sluice/internal/check.h"

namespace sluice::http1 {

namespace {

enum class Kind : uint8_t { kRequest, kResponse, kRequestTrailers, kResponseTrailers };

// What the fields of a head or of trailers say.
struct Reading {
  Kind kind;
  const Http1Options& options;
  Http1Counters& counters;
  ChunkPool& pool;
  Fields& fields;
  bool version_1_0 = false;
  bool upgrade_required = false;  // The response's status is 426.

  std::string_view host, websocket_key, websocket_accept;
  uint32_t hosts = 0, codings = 0, lengths = 0, expectations = 0, websocket_fields = 0;
  bool chunked = false, close = false, keep_alive = false, upgrade = false, websocket = false, te_trailers = false;
  uint64_t length = 0;
  std::array<std::string_view, 16> named{};  // Fields named by Connection.
  size_t named_count = 0;

  Error take_lines(std::string_view section);
  Error take_field(std::string_view name, std::string_view value);
  Error take_connection(std::string_view value);
  Error take_length(std::string_view value);
  Error take_transfer_coding(std::string_view value);
  Error finish();
  Error add(std::string_view name, std::string_view value, Fields::Traits traits = {}) {
    return fields.add_lowered(pool, name, value, traits) ? Error() : too_large(431, "a head that is too large");
  }
};

// `section`: lines that end with CR LF, the last one empty.
Error Reading::take_lines(std::string_view section) {
  while (section.size() > 2) {
    FieldLine line;
    if (const Error error = take_field_line(section, line)) return error;
    if (const Error error = take_field(line.name, line.value)) return error;
  }
  SLUICE_DCHECK(section == "\r\n");
  return finish();
}

Error Reading::take_field(std::string_view name, std::string_view value) {
  const bool trailers = kind == Kind::kRequestTrailers || kind == Kind::kResponseTrailers;
  const bool request = kind == Kind::kRequest || kind == Kind::kRequestTrailers;
  if (request && name.find('_') != std::string_view::npos) {
    if (!options.allow_underscores) return malformed("a field name with an underscore");
    ++counters.underscores;
  }
  if (trailers) {
    // They are dropped, but where they contradict each other, another recipient may read another message.
    if (same(name, "content-length")) {
      if (const Error error = take_length(value)) return error;
    } else if (same(name, "transfer-encoding")) {
      if (const Error error = take_transfer_coding(value)) return error;
    }
    if (!may_be_in_trailers(name) || is_hop_by_hop(name)) {
      ++counters.trailer_fields_dropped;
      return {};
    }
    return add(name, value);
  }
  switch (name.size()) {
    case 2:
      if (!same(name, "te")) break;
      te_trailers = te_trailers || has_member(value, "trailers");
      return {};
    case 4:
      if (!same(name, "host")) break;
      if (!request) return add(name, value);
      ++hosts;
      host = value;
      return {};
    case 6:
      if (!request || !same(name, "expect")) break;
      if (version_1_0) return {};  // Must be ignored (RFC 9110 section 10.1.1).
      if (!same(value, "100-continue"))
        return {417, ResetReason::kMalformed, "an expectation that is not 100-continue"};
      ++expectations;
      return {};
    case 7:
      if (!same(name, "upgrade")) break;
      websocket = websocket || has_member(value, "websocket");
      if (upgrade_required) return add(name, value);
      return {};
    case 10:
      if (same(name, "connection")) return take_connection(value);
      if (same(name, "keep-alive")) return {};
      break;
    case 14:
      if (!same(name, "content-length")) break;
      return take_length(value);
    case 16:
      if (same(name, "proxy-connection")) return {};
      break;
    case 17:
      if (same(name, "transfer-encoding")) return take_transfer_coding(value);
      if (!same(name, "sec-websocket-key")) break;
      ++websocket_fields;
      websocket_key = value;
      return {};
    case 20:
      if (!same(name, "sec-websocket-accept")) break;
      ++websocket_fields;
      websocket_accept = value;
      return {};
    default:
      break;
  }
  return add(name, value, {.ordinary = true});
}

Error Reading::take_connection(std::string_view value) {
  Error problem;
  each_member(value, [&](std::string_view member) {
    if (!is_token(member)) {
      problem = malformed("a Connection option that is not a token");
    } else if (is_end_to_end(member)) {
      problem = malformed("a Connection option that names an end-to-end field");
    } else if (same(member, "close")) {
      close = true;
    } else if (same(member, "keep-alive")) {
      keep_alive = true;
    } else if (same(member, "upgrade")) {
      upgrade = true;
    } else if (!is_hop_by_hop(member)) {
      if (named_count == std::min(named.size(), options.limits.connection_options)) {
        problem = too_large(431, "too many connection options");
      } else {
        named[named_count++] = member;
      }
    }
    return !problem;
  });
  return problem;
}

Error Reading::take_length(std::string_view value) {
  if (++lengths > 1) return malformed("more than one Content-Length");
  return read_length(value, length) ? Error() : malformed("a Content-Length that is not a number below 2^63");
}

Error Reading::take_transfer_coding(std::string_view value) {
  if (version_1_0) return malformed("a Transfer-Encoding in HTTP/1.0");
  if (++codings > 1) return malformed("more than one Transfer-Encoding");
  if (same(value, "chunked")) {
    chunked = true;
    return {};
  }
  const size_t comma = value.rfind(',');
  if (comma != std::string_view::npos && same(trimmed(value.substr(comma + 1)), "chunked") &&
      !same(trimmed(value.substr(0, value.find(','))), "chunked")) {
    return {501, ResetReason::kMalformed, "a transfer coding other than chunked"};
  }
  return malformed("a Transfer-Encoding that is not chunked");
}

// Runs after the last field.
Error Reading::finish() {
  for (size_t i = 0; i < named_count; ++i) {
    for (size_t at = fields.size(); at-- > 0;) {
      if (same(named[i], fields[at].name)) fields.remove(at);
    }
  }
  if (chunked && lengths > 0) return malformed("both Transfer-Encoding and Content-Length");
  if (te_trailers && kind == Kind::kRequest) return add("te", "trailers");
  return {};
}

Error add_length(Reading& reading) {
  std::array<char, 20> digits;
  const std::to_chars_result end = std::to_chars(digits.data(), digits.data() + digits.size(), reading.length);
  return reading.add("content-length", {digits.data(), static_cast<size_t>(end.ptr - digits.data())});
}

void set_persistence(const Reading& reading, MessageInfo& info) {
  info.version_1_0 = reading.version_1_0;
  info.persistent = !reading.close && (!reading.version_1_0 || reading.keep_alive);
}

// Without its CR LF, which HeadScan has verified.
std::string_view first_line(std::string_view bytes) { return bytes.substr(0, bytes.find('\n') - 1); }
std::string_view behind_first_line(std::string_view bytes) { return bytes.substr(bytes.find('\n') + 1); }

}  // namespace

bool is_ordinary(std::string_view name) { return !is_hop_by_hop(name) && name != "content-length" && name != "host"; }

bool is_hop_by_hop(std::string_view name) {
  switch (name.size()) {
    case 2:
      return same(name, "te");
    case 7:
      return same(name, "upgrade");
    case 10:
      return same(name, "connection") || same(name, "keep-alive");
    case 16:
      return same(name, "proxy-connection");
    case 17:
      return same(name, "transfer-encoding");
    default:
      return false;
  }
}

RequestKind kind_of(std::string_view method) {
  if (method == "HEAD") return RequestKind::kHead;
  return method == "CONNECT" ? RequestKind::kConnect : RequestKind::kOther;
}

Error read_request(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                   ChunkPool& pool, Head& head, MessageInfo& info) {
  const std::string_view line_text = first_line(bytes);
  RequestLine line;
  if (const Error error = read_request_line(line_text, line)) return error;
  head.fields.reserve(pool, fields, bytes.size());
  Reading reading{.kind = Kind::kRequest,
                  .options = options,
                  .counters = counters,
                  .pool = pool,
                  .fields = head.fields,
                  .version_1_0 = line.version_1_0};
  if (const Error error = reading.take_lines(behind_first_line(bytes))) return error;

  info.kind = kind_of(line.method);
  const bool connect = info.kind == RequestKind::kConnect;
  if (connect) {
    if (!options.allow_connect) return {501, ResetReason::kMalformed, "the method CONNECT is not allowed"};
    ++counters.connects;
  }
  if (reading.hosts > 1) return malformed("more than one Host");
  if (reading.hosts == 0 && !line.version_1_0) return malformed("no Host");
  if (reading.hosts == 1 && !is_authority(reading.host)) return malformed("a malformed Host");
  if (const Error error = set_target(line, reading.host, options.secure, pool, head)) return error;

  set_persistence(reading, info);
  info.framing = reading.chunked ? Framing::kChunked : reading.length > 0 ? Framing::kLength : Framing::kNone;
  info.length = reading.length;
  const bool body = info.framing != Framing::kNone;
  if (connect && body) return malformed("a CONNECT with a body");
  if (reading.websocket && reading.upgrade && !line.version_1_0 && line.method == "GET") {
    info.kind = RequestKind::kWebsocket;
    if (body) return malformed("a websocket upgrade with a body");
    if (reading.websocket_fields != 1 || !is_websocket_key(reading.websocket_key)) {
      return malformed("a websocket upgrade without a valid key");
    }
    info.accept = websocket_accept(reading.websocket_key);
    if (!head.set(pool, Head::Part::kProtocol, "websocket")) return too_large(431, "a head that is too large");
  } else if (reading.lengths > 0 && !connect) {
    if (const Error error = add_length(reading)) return error;
  }
  info.expects = reading.expectations > 0 && body;
  if (info.expects) return reading.add("expect", "100-continue");
  return {};
}

Error read_response(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, const MessageInfo& request, Head& head, MessageInfo& info) {
  bool version_1_0 = false;
  if (const Error error = read_status_line(first_line(bytes), version_1_0, head.status)) return error;
  head.fields.reserve(pool, fields, bytes.size());
  Reading reading{.kind = Kind::kResponse,
                  .options = options,
                  .counters = counters,
                  .pool = pool,
                  .fields = head.fields,
                  .version_1_0 = version_1_0,
                  .upgrade_required = head.status == 426};
  if (const Error error = reading.take_lines(behind_first_line(bytes))) return error;

  set_persistence(reading, info);
  const bool success = head.status / 100 == 2;
  const bool websocket = request.kind == RequestKind::kWebsocket;
  if (head.status == 101) {
    if (!websocket || !reading.upgrade || !reading.websocket) return malformed("an upgrade that was not requested");
    if (reading.websocket_fields != 1 || reading.websocket_accept.size() != info.accept.size()) {
      return malformed("an upgrade without a valid Sec-WebSocket-Accept");
    }
    std::copy(reading.websocket_accept.begin(), reading.websocket_accept.end(), info.accept.begin());
    if (info.accept != request.accept) return malformed("a Sec-WebSocket-Accept for another key");
    info.tunnel = true;
    info.framing = Framing::kUntilEnd;
    head.status = 200;
    return {};
  }
  // A server may ignore the upgrade and respond as to an ordinary request (RFC 9110 section 7.8).
  head.ignores_upgrade = websocket && success;
  if (request.kind == RequestKind::kConnect && success) {
    info.tunnel = true;
    info.framing = Framing::kUntilEnd;
    return {};
  }
  if (head.status < 200 || head.status == 204) return {};  // They have no body, whatever their Content-Length.
  if (reading.lengths > 0) {
    if (const Error error = add_length(reading)) return error;
  }
  if (request.kind == RequestKind::kHead || head.status == 304) return {};
  if (reading.chunked) {
    info.framing = Framing::kChunked;
  } else if (reading.lengths > 0) {
    info.framing = reading.length > 0 ? Framing::kLength : Framing::kNone;
    info.length = reading.length;
  } else {
    info.framing = Framing::kUntilEnd;
    info.persistent = false;
  }
  return {};
}

Error read_trailers(std::string_view bytes, bool of_request, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, Fields& trailers) {
  Reading reading{.kind = of_request ? Kind::kRequestTrailers : Kind::kResponseTrailers,
                  .options = options,
                  .counters = counters,
                  .pool = pool,
                  .fields = trailers};
  return reading.take_lines(bytes);
}

}  // namespace sluice::http1
