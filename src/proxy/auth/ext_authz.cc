#include "proxy/auth/ext_authz.h"

#include <array>
#include <string>

#include "proxy/common/proto_writer.h"
#include "proxy/common/token.h"
#include "proxy/http/message/client_ip.h"

namespace sluice {

namespace {

using Action = HeaderOption::Action;

// ---- The request

// Peer { address = 1, principal = 4 }, Address { socket_address = 1, pipe = 2 },
// SocketAddress { address = 2, port_value = 3 }, Pipe { path = 1 }
void write_address(ProtoWriter& out, std::string_view ip, uint16_t port) {
  const size_t address = out.begin(1);
  const size_t kind = out.begin(ip.empty() ? 2 : 1);
  if (!ip.empty()) {
    out.text(2, ip);
    out.number(3, port);
  }
  out.end(kind);
  out.end(address);
}

void write_peer(ProtoWriter& out, uint32_t field, const ClientIp& ip, uint16_t port, std::string_view principal) {
  std::array<char, ClientIp::kTextBytes> room;
  const size_t peer = out.begin(field);
  write_address(out, ip.text(room), port);
  if (!principal.empty()) out.utf8(4, principal);
  out.end(peer);
}

// An entry of map<string, string>: key = 1, value = 2
void write_header(ProtoWriter& out, std::string_view name, std::string_view value) {
  const size_t entry = out.begin(3);
  out.text(1, name);
  out.utf8(2, value);
  out.end(entry);
}

// Fields of one name are one entry, as a map has no key twice.
void write_fields(ProtoWriter& out, const Fields& fields) {
  static thread_local std::string joined;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Fields::Field field = fields[i];
    if (fields.find(field.name) < i) continue;
    size_t next = fields.find(field.name, i + 1);
    if (next == Fields::npos) {
      write_header(out, field.name, field.value);
      continue;
    }
    joined.assign(field.value);
    for (; next != Fields::npos; next = fields.find(field.name, next + 1)) {
      joined.append(field.name == "cookie" ? "; " : ",").append(fields[next].value);
    }
    write_header(out, field.name, joined);
  }
}

// The bytes of the body, as far as they are known.
int64_t body_bytes(const CheckedRequest& request) {
  uint64_t declared = 0;
  if (http1::read_length(request.head.fields.value("content-length"), declared)) return static_cast<int64_t>(declared);
  return request.ended ? 0 : -1;
}

// HttpRequest { id = 1, method = 2, headers = 3, path = 4, host = 5, scheme = 6, size = 9, protocol = 10 }
void write_http(ProtoWriter& out, const CheckedRequest& request) {
  const RequestAttributes& facts = request.facts;
  // A websocket is a GET in HTTP/1.1, and a CONNECT in HTTP/2.
  const std::string_view method = request.head.protocol().empty() ? facts.method : "GET";
  const std::string_view path = request.head.path().empty() ? facts.authority : request.head.path();
  if (!facts.request_id.empty()) out.utf8(1, facts.request_id);
  out.utf8(2, method);
  write_header(out, ":method", method);
  write_header(out, ":path", path);
  write_header(out, ":authority", facts.authority);
  write_header(out, ":scheme", facts.scheme);
  write_fields(out, request.head.fields);
  out.utf8(4, path);
  out.utf8(5, facts.authority);
  out.text(6, facts.scheme);
  out.number(9, static_cast<uint64_t>(body_bytes(request)));
  out.text(10, facts.http2 ? "HTTP/2" : "HTTP/1.1");
}

// Request { time = 1, http = 2 }, Timestamp { seconds = 1, nanos = 2 }
void write_request(ProtoWriter& out, const CheckedRequest& request) {
  const size_t whole = out.begin(4);
  const size_t time = out.begin(1);
  out.number(1, static_cast<uint64_t>(request.unix_micros / 1'000'000));
  out.number(2, static_cast<uint64_t>(request.unix_micros % 1'000'000) * 1000);
  out.end(time);
  const size_t http = out.begin(2);
  write_http(out, request);
  out.end(http);
  out.end(whole);
}

// ---- The response

// Calls `visit` with each field of this number in the message. Returns whether all of it is well-formed and each call
// returned true.
template <class Visit>
bool each_message(std::string_view message, uint32_t field, const Visit& visit) {
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(field, ProtoWire::kBytes) && !visit(in.bytes())) return false;
  }
  return in.ok();
}

template <class Visit>
bool each_option(std::string_view message, uint32_t field, const Visit& visit) {
  return each_message(message, field, [&](std::string_view text) {
    const std::optional<HeaderOption> option = read_header_option(text);
    return option && visit(*option);
  });
}

// OkHttpResponse { headers = 2, headers_to_remove = 5, response_headers_to_add = 6 }
constexpr uint32_t kHeaders = 2, kToRemove = 5, kForClient = 6;

// Without `append`, a request's field is set; it was added only later that other actions can be named.
Action request_action(const HeaderOption& option) {
  if (option.append) return *option.append ? Action::kAppend : Action::kSet;
  return option.action == Action::kAppend ? Action::kSet : option.action;
}

Action response_action(const HeaderOption& option) {
  if (option.append) return *option.append ? Action::kAppend : Action::kSet;
  return option.action;
}

bool check_ok(CheckResponse& response) {
  response.verdict = CheckResponse::Verdict::kAllowed;
  return each_option(response.details, kHeaders, is_settable) &&
         each_option(response.details, kForClient, [&](const HeaderOption& option) {
           response.changes_response = true;
           return is_settable(option);
         });
}

// HttpStatus { code = 1 }
bool read_http_status(std::string_view message, uint16_t& status) {
  ProtoReader in(message);
  uint64_t code = 0;
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) code = in.number();
  }
  if (code != 0 && (code < 200 || code > 599)) return false;
  if (code != 0) status = static_cast<uint16_t>(code);
  return in.ok();
}

// DeniedHttpResponse { status = 1, headers = 2, body = 3 }
bool check_denied(CheckResponse& response) {
  response.verdict = CheckResponse::Verdict::kDenied;
  ProtoReader in(response.details);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes) && !read_http_status(in.bytes(), response.status)) return false;
    if (in.is(3, ProtoWire::kBytes)) response.body = in.bytes();
  }
  return in.ok() && each_option(response.details, kHeaders, [](const HeaderOption&) { return true; });
}

// google.rpc.Status { code = 1 }
std::optional<uint64_t> read_code(std::string_view message) {
  ProtoReader in(message);
  uint64_t code = 0;
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) code = in.number();
  }
  return in.ok() ? std::optional(code) : std::nullopt;
}

}  // namespace

// CheckRequest { attributes = 1 }, AttributeContext { source = 1, destination = 2, request = 4, tls_session = 12 },
// TLSSession { sni = 1 }
std::string_view write_check_request(const CheckedRequest& request, std::span<char> room) {
  ProtoWriter out(room);
  const RequestAttributes& facts = request.facts;
  const size_t attributes = out.begin(1);
  write_peer(out, 1, *facts.client, facts.client_port, facts.peer());
  write_peer(out, 2, ClientIp(request.local), request.local.port(), {});
  write_request(out, request);
  if (facts.agreed && !facts.agreed->server_name.empty()) {
    const size_t session = out.begin(12);
    out.utf8(1, facts.agreed->server_name);
    out.end(session);
  }
  out.end(attributes);
  return out.ok() ? out.written() : std::string_view();
}

// CheckResponse { status = 1, denied_response = 2, ok_response = 3, error_response = 5 }
std::optional<CheckResponse> read_check_response(std::string_view message) {
  constexpr uint32_t kDenied = 2, kOk = 3, kError = 5;
  CheckResponse response;
  std::optional<uint64_t> code = 0;  // Without a status, the request is allowed.
  std::string_view denied, ok;
  bool error = false;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) code = read_code(in.bytes());
    if (!code) return std::nullopt;
    if (in.is(kDenied, ProtoWire::kBytes)) denied = in.bytes();
    if (in.is(kOk, ProtoWire::kBytes)) ok = in.bytes();
    if (in.is(kError, ProtoWire::kBytes)) error = true;
  }
  if (!in.ok()) return std::nullopt;
  if (*code != 0 && error) return response;
  response.details = *code == 0 ? ok : denied;
  const bool well_formed = *code == 0 ? check_ok(response) : check_denied(response);
  return well_formed ? std::optional(response) : std::nullopt;
}

// Removes last, as Envoy does.
bool change_request(ChunkPool& pool, const CheckResponse& response, Fields& request) {
  const auto removed = [&](std::string_view name) {
    remove_field(name, request);
    return true;
  };
  return each_option(
             response.details, kHeaders,
             [&](const HeaderOption& option) { return set_field(pool, option, request_action(option), request); }) &&
         each_message(response.details, kToRemove, removed);
}

bool add_denied_fields(ChunkPool& pool, const CheckResponse& response, Fields& to) {
  return each_option(response.details, kHeaders, [&](const HeaderOption& option) {
    return !is_settable(option) || set_field(pool, option, Action::kAppend, to);
  });
}

bool change_client_response(ChunkPool& pool, std::string_view details, Fields& to) {
  return each_option(details, kForClient,
                     [&](const HeaderOption& option) { return set_field(pool, option, response_action(option), to); });
}

}  // namespace sluice
