#include "proxy/server/startup_check.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/features.h"
#include "proxy/admin/admin_token.h"
#include "proxy/auth/auth_files.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/log/log_sink.h"
#include "proxy/server/landlock.h"
#include "proxy/server/privileges.h"
#include "proxy/tls/certificate_files.h"
#include "proxy/tls/tls_files.h"
#include "sluice/file_pool.h"

namespace sluice {

namespace {

using config::item_path;
using config::Report;

// A configuration key and the file that it names.
struct NamedFile {
  std::string path;
  std::string_view file;
};

class StartupCheck {
 public:
  StartupCheck(const config::Config& config, CheckFor purpose, Report& report)
      : config_(config), purpose_(purpose), report_(report) {}

  void run() {
    check_user();
    check_kernel();
    check_run_log();
    check_admin();
    check_limits();
    check_rings();
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      check_listener(config_.listeners[i], item_path("listeners", i));
    }
    for (size_t i = 0; i < config_.upstreams.size(); ++i) {
      check_upstream(config_.upstreams[i], item_path("upstreams", i));
    }
  }

 private:
  // What depends on the machine is only a warning of `check`, which may run on another one.
  void report_machine(const std::string& path, std::string_view message) {
    purpose_ == CheckFor::kCheck ? report_.warn(path, message) : report_.error(path, message);
  }

  void check_user() {
    if (!config_.user.is_set() || purpose_ == CheckFor::kReload) return;
    const absl::StatusOr<ProcessIds> ids = find_process_ids(config_.user);
    if (!ids.ok()) {
      absl::IsNotFound(ids.status()) ? report_machine("user", ids.status().message())
                                     : report_.error("user", ids.status().message());
    } else if (purpose_ == CheckFor::kRun) {
      if (const absl::Status may = may_become(*ids); !may.ok()) report_.error("user", may.message());
    }
  }

  void check_kernel() {
    if (!config_.sandbox || purpose_ == CheckFor::kReload) return;
    if (const absl::Status has = has_landlock(); !has.ok()) report_machine("sandbox", has.message());
  }

  void check_address(const config::Address& address, const std::string& path) {
    if (address.kind() == config::Address::Kind::kUnix) return check_unix_socket(address, path);
    // Port 0 is free, whoever listens.
    const config::Address any_port = address.with_port(0);
    const int fd = socket(any_port.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, any_port.data(), any_port.length()) == 0;
    const int error = errno;
    if (fd >= 0) close(fd);
    if (bound) return;
    if (error == EADDRNOTAVAIL) {
      report_machine(path, absl::StrCat("no interface of this machine has ", address.text(), " (see `ip address`)"));
    } else if (error == EAFNOSUPPORT) {
      report_machine(path, "this machine has no IPv6; use an IPv4 address");
    }
  }

  // An abstract name needs no directory.
  void check_unix_socket(const config::Address& address, const std::string& path) {
    const std::string text = address.text(), file = text.substr(text.find(':') + 1);
    if (file.starts_with('@')) return;
    struct stat status;
    if (lstat(file.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
      return report_.error(path, absl::StrCat(file, " exists and is not a socket; remove it, or choose another name"));
    }
    check_folder(folder_of(file), path);
  }

  static std::string folder_of(const std::string& file) {
    const size_t slash = file.rfind('/');
    return slash == std::string::npos ? "." : file.substr(0, std::max<size_t>(slash, 1));
  }

  // Makes the file, as `run` does: it has no name, and is gone with this object.
  void check_body_file() {
    const FilePool pool({.directory = config_.body_file.directory, .limit_bytes = config_.body_file.limit.bytes});
    if (!pool.ok()) report_.error("body_file", pool.error().message);
  }

  void check_limits() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const uint64_t connections = config_.limits.max_connections.value_or(0);
    if (purpose_ != CheckFor::kCheck || connections * 2 < limit.rlim_max) return;  // `run` knows what it has left.
    report_.warn("limits.max_connections",
                 absl::StrCat("needs ", connections * 2, " file descriptors, but this process may have ",
                              limit.rlim_max, "; raise `ulimit -Hn`"));
  }

  void check_rings() {
    if (purpose_ != CheckFor::kCheck || config_.memory.rings != config::Rings::kIncremental) return;
    const absl::Status features = probe_features(RingsMode::kIncremental).status();
    if (!features.ok()) report_.warn("memory.rings", features.message());
  }

  void check_listener(const config::Listener& listener, const std::string& path) {
    for (size_t i = 0; i < listener.addresses.size(); ++i) {
      const std::string list = path + ".address";
      check_address(listener.addresses[i], listener.addresses.size() == 1 ? list : item_path(list, i));
    }
    std::vector<NamedFile> files;
    bool good = true;
    if (listener.alts) {
      good = check_certificates(listener.alts->certificates, path + ".alts", files);
      files.push_back({path + ".alts.peer_ca", listener.alts->peer_ca});
    } else if (listener.tls) {
      good = check_files_of(*listener.tls, path + ".tls", files);
    }
    if (good) {
      check_context(read_tls_files_of(listener, TlsShared(), warnings_).status(), files,
                    path + (listener.alts ? ".alts" : ".tls"));
    }
    if (const config::AccessLog* const log = listener.access_log()) {
      check_log(log->file, path + (listener.http ? ".http" : ".tcp") + ".access_log.file");
    }
    if (!listener.http) return;
    const config::Http& http = *listener.http;
    for (size_t i = 0; i < http.routes.size(); ++i) check_auth(http.routes[i], item_path(path + ".http.routes", i));
    for (size_t i = 0; i < http.errors.size(); ++i) {
      config::Http one;
      one.errors = {http.errors[i]};
      if (const absl::Status read = ErrorPages(one).read_files(); !read.ok()) {
        report_.error(item_path(path + ".http.errors", i) + ".file", read.message());
      }
    }
    if (keeps_bodies(http) && !std::exchange(body_file_checked_, true)) check_body_file();
  }

  void check_upstream(const config::Upstream& upstream, const std::string& path) {
    if (!upstream.alts && !upstream.tls) return;
    std::vector<NamedFile> files;
    bool good = true;
    if (upstream.alts) {
      good = check_certificates(upstream.alts->certificates, path + ".alts", files);
      files.push_back({path + ".alts.peer_ca", upstream.alts->peer_ca});
    } else if (upstream.tls) {
      if (const auto& certificate = upstream.tls->certificate) {
        good = check_certificate(*certificate, path + ".tls.certificate", files);
      }
      files.push_back({path + ".tls.ca", upstream.tls->ca});
    }
    if (!good) return;
    check_context(read_tls_files_of(upstream, warnings_).status(), files, path + (upstream.alts ? ".alts" : ".tls"));
  }

  bool check_files_of(const config::ListenerTls& tls, const std::string& path, std::vector<NamedFile>& files) {
    const bool good = check_certificates(tls.certificates, path, files);
    files.push_back({path + ".client_ca", tls.client_ca});
    for (size_t i = 0; i < tls.ticket_keys.size(); ++i) {
      files.push_back({item_path(path + ".ticket_keys", i), tls.ticket_keys[i]});
    }
    return good;
  }

  // Checks each certificate separately, so that all findings are reported.
  bool check_certificates(const std::vector<config::TlsCertificate>& certificates, const std::string& path,
                          std::vector<NamedFile>& files) {
    bool good = true;
    for (size_t i = 0; i < certificates.size(); ++i) {
      good = check_certificate(certificates[i], item_path(path + ".certificates", i), files) && good;
    }
    return good;
  }

  bool check_certificate(const config::TlsCertificate& certificate, const std::string& path,
                         std::vector<NamedFile>& files) {
    const std::vector<NamedFile> own = {
        {path + ".chain", certificate.chain}, {path + ".key", certificate.key}, {path + ".ocsp", certificate.ocsp}};
    files.insert(files.end(), own.begin(), own.end());
    const auto read = read_certificate(certificate);
    if (read.ok()) return true;
    report_.error(place_of(read.status().message(), own, path), read.status().message());
    return false;
  }

  void check_context(const absl::Status& made, const std::vector<NamedFile>& files, const std::string& path) {
    for (const FileWarning& warning : std::exchange(warnings_, {})) {
      const std::string place = place_of(warning.text, files, path);
      const bool fails = warning.fails_check && purpose_ == CheckFor::kCheck;
      fails ? report_.error(place, warning.text) : report_.warn(place, warning.text);
    }
    if (!made.ok()) report_.error(place_of(made.message(), files, path), made.message());
  }

  // The key of the file that `message` is about, or `around` if it is none of `files`.
  static std::string place_of(std::string_view message, const std::vector<NamedFile>& files,
                              const std::string& around) {
    for (const NamedFile& each : files) {
      if (each.file.empty()) continue;
      if (absl::StartsWith(message, absl::StrCat(each.file, ":")) ||
          absl::StartsWith(message, absl::StrCat("cannot read ", each.file, ":"))) {
        return each.path;
      }
    }
    return around;
  }

  void check_auth(const config::HttpRoute& route, const std::string& path) {
    const absl::Status read = read_auth_files(route).status();
    if (read.ok()) return;
    report_.error(path + (route.auth->jwt ? ".auth.jwt.jwks_file" : ".auth.basic.users_file"), read.message());
  }

  void check_admin() {
    if (!config_.admin) return;
    const std::vector<config::Address>& addresses = config_.admin->addresses;
    for (size_t i = 0; i < addresses.size(); ++i) {
      check_address(addresses[i], addresses.size() == 1 ? "admin.address" : item_path("admin.address", i));
    }
    if (const std::optional<config::ListenerTls>& tls = config_.admin->tls) {
      std::vector<NamedFile> files;
      if (check_files_of(*tls, "admin.tls", files)) {
        check_context(make_server_context("admin", *tls, TlsShared(), warnings_).status(), files, "admin.tls");
      }
    }
    if (config_.admin->token_file.empty()) return;
    if (const absl::Status read = AdminToken::read(config_.admin->token_file).status(); !read.ok()) {
      report_.error("admin.token_file", read.message());
    }
  }

  void check_run_log() {
    const LogDestination& to = config_.log.to.destination();
    if (to.kind == LogDestination::Kind::kFile) check_log(to.path, "log.to");
    if (to.kind != LogDestination::Kind::kSyslog) return;
    // Connects, which the daemon does not notice.
    const absl::Status opened = LogSink::open(to).status();
    if (!opened.ok()) report_.error("log.to", opened.message());
  }

  // Checks the permissions instead of opening the file, which would create it.
  void check_log(const std::string& file, const std::string& path) {
    if (file == "stdout" || file == "stderr" || config::names_otlp(file)) return;
    if (config::names_syslog(file)) {
      const absl::StatusOr<config::LogTarget> to = config::LogTarget::parse(file);
      const absl::Status opened = to.ok() ? LogSink::open(to->destination(), "access log").status() : to.status();
      if (!opened.ok()) report_.error(path, opened.message());
      return;
    }
    struct stat status;
    if (stat(file.c_str(), &status) != 0) {
      if (errno != ENOENT) return report_errno(file, "cannot be written to", path);
      return check_folder(folder_of(file), path);
    }
    if (S_ISDIR(status.st_mode)) return report_.error(path, absl::StrCat(file, " is a directory: name a file in it"));
    if (access(file.c_str(), W_OK) != 0) report_errno(file, "cannot be written to", path);
  }

  void check_folder(const std::string& folder, const std::string& path) {
    struct stat status;
    if (stat(folder.c_str(), &status) != 0) return report_errno(folder, "cannot be used", path);
    if (!S_ISDIR(status.st_mode)) return report_.error(path, absl::StrCat(folder, " is not a directory"));
    if (access(folder.c_str(), W_OK | X_OK) != 0) report_errno(folder, "cannot be written to", path);
  }

  void report_errno(std::string_view file, std::string_view what, const std::string& path) {
    const int error = errno;
    report_.error(path, absl::StrCat(file, " ", what, ": ", std::generic_category().message(error),
                                     error == ENOENT ? "; make the directory first" : ""));
  }

  const config::Config& config_;
  const CheckFor purpose_;
  Report& report_;
  std::vector<FileWarning> warnings_;
  bool body_file_checked_ = false;
};

}  // namespace

void check_startup(const config::Config& config, CheckFor purpose, Report& report) {
  StartupCheck(config, purpose, report).run();
}

}  // namespace sluice
