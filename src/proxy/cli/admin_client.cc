#include "proxy/cli/admin_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"
#include "proxy/config/load/loader.h"

namespace sluice {

namespace {

// How long the process may be silent.
constexpr time_t kTimeoutS = 15;
// A profile takes its time, 60 s at most.
constexpr time_t kProfileTimeoutS = 75;

struct Target {
  config::Address address;
  std::string token_file;
  std::shared_ptr<const AdminTls> tls;
};

// `address_option`: the option with the address. Without it the configuration has the address.
absl::StatusOr<Target> target_of(const Arguments& arguments, std::string_view address_option) {
  Target target;
  std::optional<config::Admin> admin;
  if (const auto address = arguments.value(address_option)) {
    absl::StatusOr<config::Address> parsed = config::Address::parse(*address);
    if (!parsed.ok())
      return absl::Status(parsed.status().code(), absl::StrCat(address_option, ": ", parsed.status().message()));
    target.address = *std::move(parsed);
  } else {
    const std::string path(arguments.value("--config").value_or(""));
    const absl::StatusOr<config::Config> config = config::load_file(path);
    if (!config.ok()) return config.status();
    if (!config->admin) {
      return absl::NotFoundError(absl::StrCat(path, " has no `admin`: add it, or name the address with --address"));
    }
    admin = config->admin;
    target = {admin->addresses[0], admin->token_file, nullptr};
  }
  if (target.address.kind() != config::Address::Kind::kUnix && target.address.port() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(target.address.text(),
                     ": the kernel has chosen the port, see the log of the process; name the "
                     "address with --address"));
  }
  if (const auto file = arguments.value("--token-file")) target.token_file = *file;
  absl::StatusOr<std::shared_ptr<const AdminTls>> tls =
      AdminTls::of(arguments, admin ? &*admin : nullptr, target.address);
  if (!tls.ok()) return tls.status();
  target.tls = *std::move(tls);
  return target;
}

absl::StatusOr<std::string> exchange(SSL* ssl, std::string_view request) {
  ERR_clear_error();
  while (!request.empty()) {
    const int sent = SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    if (sent <= 0) return AdminTls::error_of(ssl, sent);
    request.remove_prefix(static_cast<size_t>(sent));
  }
  std::string received;
  for (char piece[16384];;) {
    const int got = SSL_read(ssl, piece, sizeof piece);
    if (got <= 0) {
      if (SSL_get_error(ssl, got) == SSL_ERROR_ZERO_RETURN) return received;
      return AdminTls::error_of(ssl, got);
    }
    received.append(piece, static_cast<size_t>(got));
  }
}

// `tls`: null without TLS.
absl::StatusOr<std::string> fetch_page(const config::Address& address, const AdminTls* tls, std::string_view request,
                                       time_t timeout_s) {
  const auto error = [&] {
    const int number = errno;
    const bool slow = number == EAGAIN || number == EINPROGRESS;
    return absl::UnavailableError(absl::StrCat(address.text(), ": ",
                                               slow ? "no response in time" : std::strerror(number),
                                               "; is the process running, with this `admin.address`?"));
  };
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return error();
  const absl::Cleanup close_it = [fd] { close(fd); };
  const timeval timeout{.tv_sec = timeout_s, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(fd, address.data(), address.length()) != 0) return error();
  if (tls) {
    std::signal(SIGPIPE, SIG_IGN);
    const absl::StatusOr<bssl::UniquePtr<SSL>> ssl = tls->connect(fd);
    absl::StatusOr<std::string> received = ssl.ok() ? exchange(ssl->get(), request) : ssl.status();
    if (received.ok()) return received;
    return absl::Status(received.status().code(), absl::StrCat(address.text(), ": ", received.status().message()));
  }
  while (!request.empty()) {
    const ssize_t sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent <= 0) return error();
    request.remove_prefix(static_cast<size_t>(sent));
  }
  std::string received;
  for (char piece[16384];;) {
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0) return error();
    if (got == 0) return received;
    received.append(piece, static_cast<size_t>(got));
  }
}

// Each request has `Connection: close` and the server sends no chunks, so a response is a head and the rest.
absl::StatusOr<AdminClient::Response> parse(std::string_view text) {
  const absl::Status malformed = absl::DataLossError("the response is not one of an admin listener, or not complete");
  AdminClient::Response response;
  const size_t end = text.find("\r\n\r\n");
  if (!absl::StartsWith(text, "HTTP/1.1 ") || end == std::string_view::npos) return malformed;
  const std::string_view head = text.substr(0, end + 2), first = head.substr(9, head.find("\r\n") - 9);
  if (!absl::SimpleAtoi(first.substr(0, 3), &response.status)) return malformed;
  response.reason = first.size() > 4 ? first.substr(4) : "";
  response.body = text.substr(end + 4);
  const std::string lower = absl::AsciiStrToLower(head);
  constexpr std::string_view kLength = "\r\ncontent-length: ";
  const size_t at = lower.find(kLength);
  size_t length = 0;
  if (at == std::string::npos) return malformed;
  const std::string_view value = std::string_view(lower).substr(at + kLength.size());
  if (!absl::SimpleAtoi(value.substr(0, value.find('\r')), &length) || length != response.body.size()) return malformed;
  return response;
}

}  // namespace

absl::StatusOr<AdminClient> AdminClient::of(const Arguments& arguments) { return of(arguments, "--address"); }

absl::StatusOr<AdminClient> AdminClient::against(const Arguments& arguments) { return of(arguments, "--against"); }

absl::StatusOr<AdminClient> AdminClient::of(const Arguments& arguments, std::string_view address_option) {
  absl::StatusOr<Target> target = target_of(arguments, address_option);
  if (!target.ok()) return target.status();
  AdminClient client;
  client.address_ = std::move(target->address);
  client.tls_ = std::move(target->tls);
  if (!target->token_file.empty()) {
    const absl::StatusOr<std::string> token = read_file(target->token_file);
    if (!token.ok()) return token.status();
    client.authorization_ = absl::StrCat("Authorization: Bearer ", absl::StripAsciiWhitespace(*token), "\r\n");
  }
  return client;
}

absl::StatusOr<AdminClient::Response> AdminClient::request(std::string_view path, std::string_view method,
                                                           std::string_view body) const {
  const absl::StatusOr<std::string> received = fetch_page(
      address_, tls_.get(),
      absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", authorization_,
                   method == "PUT" ? absl::StrCat("Content-Length: ", body.size(), "\r\n") : "", "\r\n", body),
      absl::StartsWith(path, "/profile") ? kProfileTimeoutS : kTimeoutS);
  if (!received.ok()) return received.status();
  absl::StatusOr<Response> response = parse(*received);
  if (response.ok()) return response;
  return absl::Status(response.status().code(), absl::StrCat(address_.text(), ": ", response.status().message()));
}

}  // namespace sluice
