#include "proxy/server/startup_check.h"

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
#include "proxy/auth/auth_files.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/tls/certificate_files.h"
#include "proxy/tls/tls_files.h"

namespace sluice {

namespace {

using config::Report;

std::string item(std::string_view list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

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
    for (size_t i = 0; i < config_.listeners.size(); ++i) check_listener(config_.listeners[i], item("listeners", i));
    for (size_t i = 0; i < config_.upstreams.size(); ++i) check_upstream(config_.upstreams[i], item("upstreams", i));
  }

 private:
  void check_listener(const config::Listener& listener, const std::string& path) {
    std::vector<NamedFile> files;
    bool good = true;
    if (listener.alts) {
      good = check_certificates(listener.alts->certificates, path + ".alts", files);
      files.push_back({path + ".alts.peer_ca", listener.alts->peer_ca});
    } else if (listener.tls) {
      good = check_certificates(listener.tls->certificates, path + ".tls", files);
      files.push_back({path + ".tls.client_ca", listener.tls->client_ca});
      for (size_t i = 0; i < listener.tls->ticket_keys.size(); ++i) {
        files.push_back({item(path + ".tls.ticket_keys", i), listener.tls->ticket_keys[i]});
      }
    }
    if (good) {
      check_context(read_tls_files_of(listener, TlsShared(), warnings_).status(), files,
                    path + (listener.alts ? ".alts" : ".tls"));
    }
    if (!listener.http) return;
    const config::Http& http = *listener.http;
    for (size_t i = 0; i < http.routes.size(); ++i) check_auth(http.routes[i], item(path + ".http.routes", i));
    for (size_t i = 0; i < http.errors.size(); ++i) {
      config::Http one;
      one.errors = {http.errors[i]};
      if (const absl::Status read = ErrorPages(one).read_files(); !read.ok()) {
        report_.error(item(path + ".http.errors", i) + ".file", read.message());
      }
    }
    if (http.access_log) check_log(http.access_log->file, path + ".http.access_log.file");
    if (keeps_bodies(http)) check_folder(config_.body_file.directory, "body_file.directory");
  }

  void check_upstream(const config::Upstream& upstream, const std::string& path) {
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

  // Checks each certificate separately, so that all findings are reported.
  bool check_certificates(const std::vector<config::TlsCertificate>& certificates, const std::string& path,
                          std::vector<NamedFile>& files) {
    bool good = true;
    for (size_t i = 0; i < certificates.size(); ++i) {
      good = check_certificate(certificates[i], item(path + ".certificates", i), files) && good;
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

  // Checks the permissions instead of opening the file, which would create it.
  void check_log(const std::string& file, const std::string& path) {
    if (file == "stdout" || file == "stderr") return;
    struct stat status;
    if (stat(file.c_str(), &status) != 0) {
      if (errno != ENOENT) return report_errno(file, "cannot be written to", path);
      const size_t slash = file.rfind('/');
      return check_folder(slash == std::string::npos ? "." : file.substr(0, std::max<size_t>(slash, 1)), path);
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
};

}  // namespace

void check_startup(const config::Config& config, CheckFor purpose, Report& report) {
  StartupCheck(config, purpose, report).run();
}

}  // namespace sluice
