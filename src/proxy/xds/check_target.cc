#include "proxy/xds/check_target.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/proto_reader.h"
#include "proxy/common/suggestions.h"

namespace sluice::xds {
namespace {

constexpr uint64_t kMaxPort = 65535;

absl::Status malformed() { return absl::InvalidArgumentError("it is malformed"); }

absl::StatusOr<config::Address> parse(const std::string& text) {
  absl::StatusOr<config::Address> address = config::Address::parse(text);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat(config::in_quotes(text), " is no address"));
}

// SocketAddress { protocol = 1, address = 2, port_value = 3, named_port = 4 }
absl::StatusOr<config::Address> read_socket_address(std::string_view bytes) {
  std::string host;
  uint64_t port = 0, protocol = 0;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) protocol = in.number();
    if (in.is(2, ProtoWire::kBytes)) host = std::string(in.bytes());
    if (in.is(3, ProtoWire::kVarint)) port = in.number();
  }
  if (!in.ok()) return malformed();
  if (protocol != 0) return absl::InvalidArgumentError("it is not reached by TCP");
  if (port == 0 || port > kMaxPort) return absl::InvalidArgumentError("it has no port");
  return parse(absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port));
}

// Pipe { path = 1 }
absl::StatusOr<config::Address> read_pipe(std::string_view bytes) {
  std::string path;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) path = std::string(in.bytes());
  }
  if (!in.ok()) return malformed();
  return parse(absl::StrCat("unix:", path));
}

// Address { socket_address = 1, pipe = 2 }
absl::StatusOr<config::Address> read_address(std::string_view bytes) {
  absl::StatusOr<config::Address> address = absl::InvalidArgumentError("it has no address");
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) address = read_socket_address(in.bytes());
    if (in.is(2, ProtoWire::kBytes)) address = read_pipe(in.bytes());
  }
  if (!in.ok()) return malformed();
  return address;
}

// HealthCheckConfig { port_value = 1, hostname = 2, address = 3, disable_active_health_check = 4 }
absl::Status read_check_config(std::string_view bytes, CheckTarget& target) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) {
      if (in.number() > kMaxPort) return absl::InvalidArgumentError("health_check_config.port_value is no port");
      target.port = static_cast<uint32_t>(in.number());
    }
    if (in.is(2, ProtoWire::kBytes)) target.host = std::string(in.bytes());
    if (in.is(3, ProtoWire::kBytes))
      return absl::InvalidArgumentError("health_check_config.address has no counterpart");
    if (in.is(4, ProtoWire::kVarint) && in.number() != 0) {
      return absl::InvalidArgumentError("health_check_config.disable_active_health_check is set");
    }
  }
  return in.ok() ? absl::OkStatus() : malformed();
}

}  // namespace

// Endpoint { address = 1, health_check_config = 2 }
absl::StatusOr<CheckTarget> read_check_target(std::string_view endpoint) {
  CheckTarget target;
  std::string_view address;
  ProtoReader in(endpoint);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) address = in.bytes();
    if (!in.is(2, ProtoWire::kBytes)) continue;
    if (absl::Status read = read_check_config(in.bytes(), target); !read.ok()) return read;
  }
  if (!in.ok()) return malformed();
  absl::StatusOr<config::Address> read = read_address(address);
  if (!read.ok()) return read.status();
  target.address = *std::move(read);
  return target;
}

}  // namespace sluice::xds
