#include "proxy/cli/admin_tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"
#include "proxy/config/model/server_name.h"
#include "proxy/tls/client_context.h"

namespace sluice {

namespace {

constexpr std::string_view kOptions[] = {"--ca", "--certificate", "--key", "--server-name"};

// The first certificate of a file: the server's own.
absl::StatusOr<bssl::UniquePtr<X509>> read_leaf(const std::string& path) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  const bssl::UniquePtr<BIO> source(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
  bssl::UniquePtr<X509> leaf(PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr));
  if (!leaf) return absl::InvalidArgumentError(absl::StrCat(path, ": expected a certificate in PEM"));
  return leaf;
}

// Why the server's certificate is refused.
std::string verdict_text(long verdict) {
  const bool is_for_other = verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
  return absl::StrCat(": ", X509_verify_cert_error_string(verdict),
                      is_for_other ? "; set --server-name to a name in the server's certificate" : "");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const AdminTls>> AdminTls::of(const Arguments& arguments, const config::Admin* admin,
                                                             const config::Address& address) {
  const auto option = [&](std::string_view name) { return std::string(arguments.value(name).value_or("")); };
  const bool configured = admin && admin->tls;
  const bool is_unix = address.kind() == config::Address::Kind::kUnix;
  const auto given = std::find_if(std::begin(kOptions), std::end(kOptions),
                                  [&](std::string_view name) { return arguments.has(name); });
  if (is_unix || (!configured && !arguments.has("--ca"))) {
    if (given == std::end(kOptions)) return nullptr;
    return absl::InvalidArgumentError(
        absl::StrCat(*given, " is for TLS, which ",
                     is_unix ? "Unix sockets are without" : "needs --ca, or `admin.tls` in the configuration"));
  }
  if (arguments.has("--certificate") != arguments.has("--key")) {
    return absl::InvalidArgumentError("--certificate and --key need each other");
  }
  const auto made = std::make_shared<AdminTls>();
  config::UpstreamTls& tls = made->options_;
  tls.alpn = {"http/1.1"};
  tls.ca = option("--ca");
  tls.verify = !tls.ca.empty();
  tls.server_name = option("--server-name");
  if (tls.server_name.empty() && tls.verify) {
    const std::string text = address.text();
    tls.server_name = text.substr(0, text.rfind(':'));
    if (tls.server_name.starts_with('[')) tls.server_name = tls.server_name.substr(1, tls.server_name.size() - 2);
  }
  if (!tls.server_name.empty()) {
    if (const absl::Status name = config::check_server_name(tls.server_name); !name.ok()) {
      return absl::Status(name.code(), absl::StrCat("--server-name: ", name.message()));
    }
  }
  if (arguments.has("--certificate")) tls.certificate = {option("--certificate"), option("--key"), ""};
  if (!tls.verify) {
    for (const config::TlsCertificate& each : admin->tls->certificates) {
      absl::StatusOr<bssl::UniquePtr<X509>> leaf = read_leaf(each.chain);
      if (!leaf.ok()) return leaf.status();
      made->expected_.push_back(*std::move(leaf));
    }
  }
  std::vector<FileWarning> ignored;
  absl::StatusOr<bssl::UniquePtr<SSL_CTX>> context = make_client_context(tls, ignored);
  if (!context.ok()) return context.status();
  made->context_ = *std::move(context);
  return made;
}

absl::StatusOr<bssl::UniquePtr<SSL>> AdminTls::connect(int fd) const {
  bssl::UniquePtr<SSL> ssl(SSL_new(context_.get()));
  SSL_set_fd(ssl.get(), fd);
  expect_server(ssl.get(), options_);
  ERR_clear_error();
  if (const int result = SSL_connect(ssl.get()); result != 1) return error_of(ssl.get(), result);
  if (absl::Status certificate = check_certificate(ssl.get()); !certificate.ok()) return certificate;
  return ssl;
}

absl::Status AdminTls::check_certificate(const SSL* ssl) const {
  if (options_.verify) return absl::OkStatus();  // BoringSSL has checked it.
  const bssl::UniquePtr<X509> shown(SSL_get_peer_certificate(ssl));
  const bool expected = shown && std::any_of(expected_.begin(), expected_.end(),
                                             [&](const auto& each) { return X509_cmp(shown.get(), each.get()) == 0; });
  if (expected) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "TLS: the server's certificate is none of those of `admin.tls.certificates`; if they have changed, reload the "
      "process, or name the authority with --ca");
}

absl::Status AdminTls::error_of(const SSL* ssl, int result) {
  const int saved_errno = errno;
  const int kind = SSL_get_error(ssl, result);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    return absl::DeadlineExceededError("TLS: no response in time");
  }
  const uint32_t error = ERR_peek_error();
  if (error == 0) {
    return absl::UnavailableError(absl::StrCat("TLS: ", saved_errno != 0 && kind == SSL_ERROR_SYSCALL
                                                            ? std::strerror(saved_errno)
                                                            : "the connection was closed"));
  }
  const char* const reason = ERR_reason_error_string(error);
  const std::string text = reason ? reason : "an unknown error";
  const bool wants_certificate =
      absl::StrContains(text, "CERTIFICATE_REQUIRED") || absl::StrContains(text, "ALERT_HANDSHAKE_FAILURE");
  return absl::UnavailableError(absl::StrCat(
      "TLS: ", text,
      wants_certificate ? "; the process requires a certificate: name one with --certificate and --key" : "",
      text == "CERTIFICATE_VERIFY_FAILED" ? verdict_text(SSL_get_verify_result(ssl)) : ""));
}

}  // namespace sluice
